"""A database that accepts no connections is entered by the platform, and is as before afterwards."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.closed_databases import entered
from ramet.backends.local.sql.connections import Connection
from ramet.errors import Unavailable
from ramet.model.passwords import new_password
from tests.backends.local.hosts import boot, connect, new_server

STATE = "SELECT datallowconn, datconnlimit FROM pg_database WHERE datname = 'closed'"


class Place:
    """A closed database, and how a tenant and the platform come into it."""

    def __init__(self, instances: Instances) -> None:
        self.instances, self.password = instances, new_password()
        self.server = new_server(instances, self.password)
        boot(instances, self.server)
        instances.secure(self.server, is_new=True, neutralize=False)
        instances.open(self.server)
        self.paths = instances.paths(self.server.service_id)
        with connections.connect(self.paths) as platform:
            platform.execute("CREATE DATABASE closed OWNER tsdbadmin ALLOW_CONNECTIONS false CONNECTION LIMIT 7")
            (self.database,) = (each for each in connections.databases(platform) if each.name == "closed")

    def tenant(self) -> psycopg.Connection[tuple[object, ...]]:
        return connect(self.server, self.password, sslmode="prefer", dbname="closed")

    def state(self) -> tuple[Any, ...]:
        with connections.connect(self.paths) as platform:
            return connections.row(platform, STATE)


@pytest.fixture(name="place", scope="module")
def _place(instances: Instances) -> Iterator[Place]:
    place = Place(instances)
    yield place
    instances.remove(place.server.service_id, 10)


def _before_it_is_entered(monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
    """Do something once, while the database is open."""
    real, pending = connections.connect, [work]

    def connect_late(paths: ServicePaths, *names: str, **settings: Any) -> AbstractContextManager[Connection]:
        if names and pending:
            pending.pop()()
        return real(paths, *names, **settings)

    monkeypatch.setattr(connections, "connect", connect_late)


def test_a_closed_database_is_open_only_while_the_platform_connects_to_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, ...]] = []
    _before_it_is_entered(monkeypatch, lambda: seen.append(place.state()))
    with entered(place.paths, place.database) as inside:
        assert inside.execute("SELECT FROM pg_stat_activity WHERE datname = 'closed'").fetchall() == [()]
        assert place.state() == (False, 7)
    assert seen == [(True, 7)]


def test_two_can_enter_a_closed_database_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def enter() -> None:
        with entered(place.paths, place.database):
            assert place.state() == (True, 7)

    _before_it_is_entered(monkeypatch, enter)
    with entered(place.paths, place.database) as inside:
        inside.execute("SELECT 1")
    assert place.state() == (False, 7)


def test_a_database_that_its_owner_has_opened_stays_open(place: Place) -> None:
    with connections.connect(place.paths) as platform:
        platform.execute("ALTER DATABASE closed ALLOW_CONNECTIONS true")
        with entered(place.paths, place.database), place.tenant():
            pass
        assert place.state() == (True, 7)
        platform.execute("ALTER DATABASE closed ALLOW_CONNECTIONS false")


def test_sessions_that_come_in_with_the_platform_end(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[psycopg.Connection[tuple[object, ...]]] = []
    with connections.connect(place.paths) as platform:
        platform.execute("ALTER DATABASE closed ALLOW_CONNECTIONS true")
        earlier = place.tenant()
        platform.execute("ALTER DATABASE closed ALLOW_CONNECTIONS false")
    _before_it_is_entered(monkeypatch, lambda: came.append(place.tenant()))
    with entered(place.paths, place.database):
        with pytest.raises(psycopg.errors.AdminShutdown):
            came[0].execute("SELECT 1")
        earlier.execute("SELECT 1")
    came[0].close()
    earlier.close()


def test_a_database_is_closed_again_whatever_alters_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with connections.connect(place.paths, lock_timeout="100ms") as owner:

        def alter() -> None:
            owner.execute("BEGIN")
            with suppress(psycopg.errors.LockNotAvailable):
                owner.execute("ALTER DATABASE closed CONNECTION LIMIT 9")

        _before_it_is_entered(monkeypatch, alter)
        with entered(place.paths, place.database):
            assert place.state() == (False, 7)
        owner.execute("ROLLBACK")


def test_a_database_that_is_altered_just_before_it_is_closed_again_is_closed_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connections.connect(place.paths) as owner:
        execute, acts = Connection.execute, {"BEGIN": ["BEGIN", "ALTER DATABASE closed CONNECTION LIMIT 7"]}
        acts["ROLLBACK"] = ["COMMIT"]

        def execute_late(connection: Connection, query: Any, *arguments: Any) -> Any:
            for act in acts.pop(query, []) if isinstance(query, str) else []:
                execute(owner, act.encode())
            return execute(connection, query, *arguments)

        monkeypatch.setattr(psycopg.Connection, "execute", execute_late)
        with pytest.raises(psycopg.errors.LockNotAvailable), entered(place.paths, place.database):
            pass
    assert place.state() == (False, 7)


def test_a_database_that_cannot_be_entered_is_closed_again(place: Place) -> None:
    missing = replace(place.database, name="missing")
    with pytest.raises(Unavailable), entered(place.paths, missing):
        pass
    assert place.state() == (False, 7)


@pytest.fixture
def _second_superuser(place: Place) -> Iterator[None]:
    """Let the platform's role be another one than that of initdb, as on Kubernetes."""
    with connections.connect(place.paths) as first:
        first.execute("UPDATE pg_authid SET rolname = 'postgres' WHERE oid = 10")
        first.execute("CREATE ROLE ramet LOGIN SUPERUSER")
        yield
        first.execute("DROP ROLE ramet")
        first.execute("UPDATE pg_authid SET rolname = 'ramet' WHERE oid = 10")


@pytest.mark.usefixtures("_second_superuser")
def test_the_platform_can_be_another_superuser_than_the_first(place: Place) -> None:
    with entered(place.paths, place.database) as inside:
        assert connections.value(inside, "SELECT session_user::regrole::oid > 10")
    assert place.state() == (False, 7)


def test_a_closed_database_whose_row_is_locked_is_refused(place: Place) -> None:
    with connections.connect(place.paths) as platform, platform.transaction():
        platform.execute("ALTER DATABASE closed CONNECTION LIMIT 7")
        with pytest.raises(psycopg.errors.LockNotAvailable), entered(place.paths, place.database):
            pass
    assert place.state() == (False, 7)
