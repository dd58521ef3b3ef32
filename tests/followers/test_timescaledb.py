"""A standby of a source with TimescaleDB loads its library: without it, rows of compressed chunks would be missing."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from prove.ground import open_ground
from ramet.control.requests import CreateRequest
from ramet.followers.verbs import FollowRequest, follow_service
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType
from tests.api.test_following import BODY, path_of
from tests.api.world import World, open_world
from tests.backends.local.stand_in import copyable, installed_stand_in
from tests.followers.conftest import PASSWORD, allow_replication, restart, url_of
from tests.sources import Source, open_source


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A Ramet in memory, and a source with TimescaleDB."""
    for made in open_world(tmp_path):
        followers = made.backend.followers
        followers.facts = replace(followers.facts, extensions=("pg_trgm", "timescaledb"))
        yield made


@pytest.mark.parametrize("asked", [{}, {"service_type": "POSTGRES"}, {"service_type": "VECTOR"}])
def test_a_standby_of_a_source_with_timescaledb_has_its_type(world: World, asked: dict[str, str]) -> None:
    report = world.post(path_of(world, "?dry_run=true"), BODY | asked).json()
    assert ("NOTED", "service_type") in [(one["effect"], one["subject"]) for one in report["findings"]]
    made = world.post(path_of(world), BODY | asked).json()
    world.work()
    assert (made["service_type"], world.look(made)["status"]) == ("TIMESERIESDB", "READY")


def test_a_source_without_timescaledb_has_the_type_that_was_asked_for(world: World) -> None:
    world.backend.followers.facts = replace(world.backend.followers.facts, extensions=("pg_trgm",))
    report = world.post(path_of(world, "?dry_run=true"), BODY).json()
    assert "service_type" not in [one["subject"] for one in report["findings"]]
    assert world.post(path_of(world), BODY).json()["service_type"] == "POSTGRES"
    assert world.post(path_of(world), BODY | {"service_type": "VECTOR"}).json()["service_type"] == "VECTOR"


@pytest.fixture
def source() -> Iterator[Source]:
    """A source with the stand-in for TimescaleDB in a database beside the one that is followed."""
    installation = copyable()
    if installation is None:
        pytest.skip("no PostgreSQL here works from another directory")
    with installed_stand_in(), open_source(installation.major) as made:
        restart(made, shared_preload_libraries="timescaledb")
        allow_replication(made)
        made.run("CREATE DATABASE points", "postgres")
        made.run("CREATE EXTENSION timescaledb", "points")
        yield made


@pytest.mark.timeout(300)
def test_a_standby_loads_the_library_that_another_database_of_its_source_needs(source: Source) -> None:
    with open_ground(None, snapshot_seconds=3600.0) as ground:
        request = FollowRequest(CreateRequest("shop"), url_of(source), Secret(PASSWORD))
        standby = ground.accepted(follow_service(ground.plane, ground.project_id, request))
        assert standby.service.service_type is ServiceType.TIMESERIESDB
        with psycopg.connect(
            host="localhost", port=standby.service.port, user="app", password="app", dbname="shop", connect_timeout=30
        ) as connection:
            loaded = connection.execute("SELECT count(*) FROM pg_settings WHERE name ~ '^timescaledb'").fetchone()
        assert loaded != (0,)
