"""Transactions on PostgreSQL lock rows in the same order: a service, its read replica sets, then operations."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ramet.control import replica_sets as verbs
from ramet.control.replica_sets import ReplicaSetRequest
from ramet.errors import NotFound
from ramet.model.environment import Environment
from ramet.store import replica_sets, snapshots
from tests.api.world import World, open_world
from tests.beside import Beside

pytestmark = pytest.mark.servers


@pytest.fixture
def world(tmp_path: Path, postgresql_url: str) -> Iterator[World]:
    yield from open_world(tmp_path, postgresql_url)


def add_set(world: World) -> tuple[str, str, str]:
    """Request a read replica set; return where it is: its project, service and id."""
    project_id, service_id = world.tenant.project.id, world.ready()["service_id"]
    made = verbs.create_set(world.plane, project_id, service_id, ReplicaSetRequest("reports", 1, 500, 2))
    return project_id, service_id, made.id


def test_a_set_can_be_deleted_as_it_becomes_active(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    at = add_set(world)
    deletion = Beside(world.store, lambda: verbs.delete_set(world.plane, *at))
    deletion.begin_after(monkeypatch, replica_sets, "finish_operation")
    world.work()
    deletion.result()
    world.work()
    assert verbs.list_sets(world.plane, *at[:2]) == []


def test_a_set_can_be_changed_as_its_service_is_deleted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    at = add_set(world)
    world.work()
    change = Beside(world.store, lambda: verbs.set_environment(world.plane, *at, Environment.PROD))
    change.begin_before(monkeypatch, snapshots, "delete_snapshots_of")
    world.delete(world.path(at[1]))
    world.work()
    with suppress(NotFound):
        change.result()
    assert world.listed() == []
