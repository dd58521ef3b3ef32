"""Sessions that cannot be: what is said of an endpoint that does not answer, and of too many sessions."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ramet.control.services import get_service
from ramet.errors import Exhausted, Unavailable
from ramet.workbench.sessions import Limits, NoDatabase, Place, Workbench
from tests.api.world import World, open_world


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> Iterator[World]:
    yield from open_world(tmp_path)


@pytest.fixture(name="place")
def _place(world: World) -> Place:
    """A service whose endpoint nobody listens on."""
    made = world.ready()
    plane = world.plane.on_behalf_of(world.tenant.key)
    return Place(plane, get_service(plane, world.tenant.project.id, made["service_id"]), "tsdb")


def test_an_endpoint_that_does_not_answer_is_named(place: Place) -> None:
    said = rf"shop accepts no session in 'tsdb': localhost:{place.service.port}: Connection refused"
    with pytest.raises(Unavailable, match=said), Workbench().session(place, Limits(1)):
        pass


def test_a_name_that_would_end_the_connection_string_is_none_of_a_database(place: Place) -> None:
    def connect(**_: Any) -> None:
        raise AssertionError("it connects without the parameters behind the name")

    workbench = Workbench(connect=connect)  # type: ignore[arg-type]
    with (
        pytest.raises(NoDatabase, match=r"no database 'tsdb\\x00'"),
        workbench.session(replace(place, database="tsdb\0"), Limits(1)),
    ):
        pass


@pytest.mark.parametrize(
    ("reason", "is_renewed"),
    [
        ('password authentication failed for user "shop"', True),
        ('role "shop" is not permitted to log in', True),
        ("the database system is shutting down", False),
    ],
)
def test_a_login_that_the_server_refuses_is_replaced(place: Place, reason: str, is_renewed: bool) -> None:
    roles = []

    def connect(*, user: str, **_: Any) -> None:
        roles.append(user)
        raise psycopg.OperationalError(f"connection failed: FATAL:  {reason}")

    workbench = Workbench(connect=connect)  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match=reason), workbench.session(place, Limits(1)):
        pass
    assert len(set(roles)) == len(roles) == 1 + is_renewed


def test_no_more_sessions_are_opened_than_there_are_places(place: Place) -> None:
    workbench = Workbench()
    while workbench.slots.acquire(place.service.project_id):
        pass
    assert workbench.slots.acquire("another project")
    with pytest.raises(Exhausted, match="8 sessions of the console are open"), workbench.session(place, Limits(1)):
        pass
    workbench.slots.release(place.service.project_id)
    with pytest.raises(Unavailable), workbench.session(place, Limits(1)):
        pass
    assert workbench.slots.acquire(place.service.project_id)
