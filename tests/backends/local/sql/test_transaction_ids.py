"""Regular work takes no transaction IDs where it changes nothing: each one makes another snapshot of a service due."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.logins import LocalLogins
from ramet.backends.local.server import usage
from ramet.backends.local.server.client_sessions import client_sessions
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, ownership, read_only_access
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.read_only_roles import ReadOnlyRoles
from ramet.errors import Unavailable
from ramet.model.passwords import new_password, scram_verifier
from tests.backends.local.hosts import new_server
from tests.servers import installations

LOGIN = "ramet_login_kept"
NEXT_ID = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
MARK = "ALTER ROLE {} SET tsdb_admin.read_only_role = true"


class Place:
    """A server without autovacuum, which takes transaction IDs, whatever a test makes of its configuration."""

    def __init__(self, instances: Instances, server: Server) -> None:
        self.instances, self.server = instances, server
        self.paths, self.logins = instances.paths(server.service_id), LocalLogins(instances)

    def run(self, *statements: str, database: str = "tsdb") -> None:
        with connections.connect(self.paths, database) as platform:
            for statement in statements:
                platform.execute(statement.encode())

    @contextmanager
    def transaction(self, statement: str, database: str, *, is_prepared: bool) -> Iterator[None]:
        """Keep a transaction open, or prepared."""
        with connections.connect(self.paths, database) as holder:
            for each in ("BEGIN", statement, "PREPARE TRANSACTION 'holds'" if is_prepared else "SELECT 1"):
                holder.execute(each.encode())
            yield
            holder.execute(b"ROLLBACK PREPARED 'holds'" if is_prepared else b"ROLLBACK")

    def ids_taken_by(self, work: Callable[[], object]) -> int:
        """Do something four times; return how many transaction IDs all but the first time took."""
        work()
        with connections.connect(self.paths) as platform:
            before = _next_id(platform)
            for _ in range(3):
                work()
            return _next_id(platform) - before


def _next_id(connection: Connection) -> int:
    return int(connections.value(connection, NEXT_ID))


@pytest.fixture(name="place", scope="module", params=sorted(installations().by_major))
def _place(request: pytest.FixtureRequest, instances: Instances) -> Iterator[Place]:
    server = new_server(instances, pg_major=request.param)
    instances.make_directories(server)
    instances.initialize(server)
    instances.boot(server, overrides={"autovacuum": "off"})
    instances.secure(server, is_new=True, neutralize=False)
    yield Place(instances, server)
    instances.remove(server.service_id, 10)


@pytest.mark.parametrize(
    ("database", "statement", "is_prepared"),
    [
        ("tsdb", "ALTER DATABASE other RENAME TO another", True),
        ("tsdb", "ALTER DATABASE other CONNECTION LIMIT 7", True),
        ("tsdb", f"ALTER ROLE {LOGIN} CONNECTION LIMIT 7", False),
        ("tsdb", f"GRANT CREATE ON SCHEMA public TO {LOGIN}", False),
        ("other", "LOCK kept.kept IN ACCESS SHARE MODE", True),
        ("other", "LOCK kept.kept IN ACCESS SHARE MODE", False),
    ],
)
def test_a_login_that_cannot_be_dropped_takes_none(
    place: Place, monkeypatch: pytest.MonkeyPatch, database: str, statement: str, *, is_prepared: bool
) -> None:
    monkeypatch.setattr(ownership, "_LONG", timedelta(0))
    until = datetime.now(UTC) + timedelta(hours=1)
    place.logins.create(place.server, LOGIN, scram_verifier(new_password()), until, read_only=False)
    place.run("CREATE DATABASE other OWNER tsdbadmin")
    place.run(f"SET SESSION AUTHORIZATION {LOGIN}", "CREATE SCHEMA kept CREATE TABLE kept (id int)", database="other")

    def drop() -> None:
        with pytest.raises(Unavailable):
            place.logins.drop(place.server, [LOGIN])

    if "DATABASE other CONNECTION" in statement:
        place.run("ALTER DATABASE other ALLOW_CONNECTIONS false")
    with place.transaction(statement, database, is_prepared=is_prepared):
        assert place.ids_taken_by(drop) == 0
    place.logins.drop(place.server, [LOGIN])
    place.run("DROP DATABASE other")


def test_the_checks_of_an_idle_server_take_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "_LONG", timedelta(0))
    for role in ("settled", "of_the_admin", "busy"):
        place.run(f"CREATE ROLE {role}", f"CREATE SCHEMA {role} AUTHORIZATION {role} CREATE TABLE t (id int)")
        place.run(f"GRANT {role} TO tsdbadmin" if role != "of_the_admin" else f"GRANT tsdbadmin TO {role}")
        place.run(MARK.format(role))

    def check() -> None:
        ReadOnlyRoles().enforce(place.paths)
        place.instances.renew_access(place.server)
        assert place.instances.renew(place.server.service_id)
        assert usage.measure(place.paths)
        assert client_sessions(place.paths, [])

    with place.transaction("LOCK busy.t IN ACCESS SHARE MODE", "tsdb", is_prepared=True):
        assert place.ids_taken_by(check) == 0


def test_a_renewal_that_a_locked_database_prevents_takes_none_and_leaves_no_session(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_only_access, "_VERSION", "of another release")
    place.run("CREATE DATABASE other OWNER tsdbadmin", "CREATE DATABASE closed ALLOW_CONNECTIONS false")
    renew = partial(place.instances.renew, place.server.service_id)
    with place.transaction("ALTER DATABASE other RENAME TO another", "tsdb", is_prepared=True):
        assert place.ids_taken_by(renew) == 0
        with connections.connect(place.paths) as platform:
            assert connections.value(platform, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0
    assert renew()
    place.run("DROP DATABASE other", "DROP DATABASE closed")
