"""Logins on a real server: their rights, and what is left when they are dropped."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.logins import LocalLogins
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import closed_databases, connections, logins, session_settings
from ramet.errors import Unavailable, WrongState
from ramet.model.passwords import Secret, new_password, scram_verifier
from tests.backends.local.hosts import boot, connect, new_server
from tests.servers import installations

LATER = timedelta(hours=1)


class Place:
    """A server, its admin, and the logins that it gets."""

    def __init__(self, instances: Instances, server: Server, password: Secret) -> None:
        self.instances, self.server, self.password = instances, server, password
        self.logins = LocalLogins(instances)

    def make(self, name: str, *, read_only: bool = False, lasts: timedelta = LATER) -> Secret:
        password = new_password()
        for _ in range(2):
            verifier = scram_verifier(password)
            self.logins.create(self.server, name, verifier, datetime.now(UTC) + lasts, read_only=read_only)
        return password

    def open(self, user: str, password: Secret, dbname: str = "tsdb") -> psycopg.Connection[tuple[object, ...]]:
        return connect(self.server, password, user=user, dbname=dbname, sslmode="prefer")


@pytest.fixture(name="place", scope="module", params=[one.major for one in installations().found])
def _place(request: pytest.FixtureRequest, instances: Instances) -> Iterator[Place]:
    password = new_password()
    server = new_server(instances, password, pg_major=request.param)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    yield Place(instances, server, password)
    instances.remove(server.service_id, 10)


def _owners(place: Place, pattern: str) -> list[tuple[object, ...]]:
    with place.open("tsdbadmin", place.password) as connection:
        query = "SELECT relname, relowner::regrole::text FROM pg_class WHERE relname LIKE %s ORDER BY relname"
        return connection.execute(query, (pattern,)).fetchall()


def test_a_login_has_the_admins_rights_and_leaves_all_to_the_admin(place: Place) -> None:
    password = place.make("ramet_login_dev")
    with place.open("ramet_login_dev", password) as session:
        session.execute("CREATE TABLE dev_usual (id int)")
        session.execute("CREATE ROLE dev_made")
        session.execute("SET ROLE NONE")
        session.execute("CREATE SCHEMA dev CREATE TABLE dev_own (id int)")
        assert _owners(place, "dev_%") == [("dev_own", "ramet_login_dev"), ("dev_usual", "tsdbadmin")]
        for _ in range(2):
            place.logins.drop(place.server, ["ramet_login_dev", "ramet_login_gone"])
        with pytest.raises(psycopg.OperationalError, match="terminating connection"):
            session.execute("SELECT 1")
    assert _owners(place, "dev_%") == [("dev_own", "tsdbadmin"), ("dev_usual", "tsdbadmin")]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        place.open("ramet_login_dev", password)


def test_a_read_only_login_reads_and_writes_nothing(place: Place) -> None:
    with place.open("tsdbadmin", place.password) as admin:
        admin.execute("CREATE TABLE seen (id int)")
    password = place.make("ramet_login_view", read_only=True)
    with place.open("ramet_login_view", password) as session:
        session.execute("SELECT * FROM seen")
        for statement in ("INSERT INTO seen VALUES (1)", "CREATE TABLE no (id int)", "SET ROLE tsdbadmin"):
            for before in ("SELECT 1", "SET default_transaction_read_only = off"):
                with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
                    session.execute(f"{before}; {statement}".encode())
    place.logins.drop(place.server, ["ramet_login_view"])


def test_a_login_that_is_over_or_came_with_a_fork_opens_nothing(place: Place) -> None:
    over = place.make("ramet_login_over", lasts=timedelta(seconds=-1))
    other = place.make("ramet_login_other")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        place.open("ramet_login_over", over)
    with connections.connect(place.instances.paths(place.server.service_id)) as connection:
        logins.disable_all(connection)
    with pytest.raises(psycopg.OperationalError, match="is not permitted to log in"):
        place.open("ramet_login_other", other)
    place.logins.drop(place.server, ["ramet_login_over", "ramet_login_other"])


def test_a_session_that_locks_its_own_role_ends_as_any_other(place: Place) -> None:
    names = ["ramet_login_holds", "ramet_login_other"]
    holder, other = (place.open(name, place.make(name)) for name in names)
    with holder, other:
        holder.execute("SET ROLE NONE")
        holder.execute("BEGIN")
        holder.execute("ALTER ROLE CURRENT_USER PASSWORD 'x'")
        place.logins.drop(place.server, names)
        for session in (holder, other):
            with pytest.raises(psycopg.OperationalError, match="terminating connection"):
                session.execute("SELECT 1")


@pytest.mark.parametrize("savepoint", ["SELECT 1", "SAVEPOINT inner_one"])
def test_a_prepared_transaction_that_changes_the_role_does_not_keep_it(place: Place, savepoint: str) -> None:
    password = place.make("ramet_login_prepares")
    with place.open("ramet_login_prepares", password) as session:
        changes = (("kept", "tsdbadmin", "SELECT 1"), ("ended", "NONE", "ALTER ROLE CURRENT_USER PASSWORD 'x'"))
        for gid, role, change in changes:
            for statement in (f"SET ROLE {role}", "BEGIN", savepoint, change, f"PREPARE TRANSACTION '{gid}'"):
                session.execute(statement.encode())
        place.logins.drop(place.server, ["ramet_login_prepares"])
        with pytest.raises(psycopg.OperationalError, match="terminating connection"):
            session.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        place.open("ramet_login_prepares", password)
    with place.open("tsdbadmin", place.password) as admin:
        assert admin.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == [("kept",)]
        admin.execute("ROLLBACK PREPARED 'kept'")


def test_sessions_end_though_a_role_cannot_be_changed_now(place: Place) -> None:
    names = ["ramet_login_locked", "ramet_login_next"]
    passwords = [place.make(name) for name in names]
    sessions = [place.open(name, password) for name, password in zip(names, passwords, strict=True)]
    with connections.connect(place.instances.paths(place.server.service_id)) as platform:
        with platform.transaction():
            platform.execute("ALTER ROLE ramet_login_locked CONNECTION LIMIT 1")
            with pytest.raises(Unavailable, match="were not dropped yet"):
                place.logins.drop(place.server, names)
        for session in sessions:
            with pytest.raises(psycopg.OperationalError, match="terminating connection"):
                session.execute("SELECT 1")
            session.close()
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            place.open(names[1], passwords[1])
    place.logins.drop(place.server, names)


def test_a_login_or_password_waits_only_a_while_for_a_transaction_that_locks_the_admin(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(session_settings._OURS, "lock_timeout", "200ms")
    with connections.connect(place.instances.paths(place.server.service_id)) as platform, platform.transaction():
        platform.execute("LOCK pg_authid IN SHARE MODE")  # as GRANT tsdbadmin TO other does on PostgreSQL 15
        with pytest.raises(Unavailable, match="keeps the role tsdbadmin locked"):
            place.make("ramet_login_new")
        with pytest.raises(Unavailable, match="keeps the role tsdbadmin locked"):
            place.instances.set_password(place.server, scram_verifier(place.password))
    place.make("ramet_login_new")
    place.logins.drop(place.server, ["ramet_login_new"])


@pytest.mark.parametrize("savepoint", ["SELECT 1", "SAVEPOINT inner_one"])
def test_a_prepared_transaction_stays_where_a_session_keeps_the_role(place: Place, savepoint: str) -> None:
    place.make("ramet_login_locked")
    paths = place.instances.paths(place.server.service_id)
    with connections.connect(paths) as platform, connections.connect(paths) as holder:
        platform.execute("CREATE ROLE other")
        for statement in ("BEGIN", "ALTER ROLE other CONNECTION LIMIT 1", "PREPARE TRANSACTION 'other'"):
            platform.execute(statement.encode())
        for statement in ("BEGIN", savepoint, "ALTER ROLE ramet_login_locked CONNECTION LIMIT 1"):
            holder.execute(statement.encode())
        with pytest.raises(Unavailable, match="were not dropped yet"):
            place.logins.drop(place.server, ["ramet_login_locked"])
        assert platform.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == [("other",)]
        holder.execute("ROLLBACK")
        platform.execute("ROLLBACK PREPARED 'other'")
        platform.execute("DROP ROLE other")
    place.logins.drop(place.server, ["ramet_login_locked"])


def test_a_login_is_dropped_that_has_something_in_a_template_or_a_closed_database(place: Place) -> None:
    names = ["ramet_login_first", "ramet_login_second"]
    passwords = [place.make(name) for name in names]
    with place.open("tsdbadmin", place.password) as admin:
        admin.execute("CREATE DATABASE closed")
        for database, change in (
            ("template1", "SELECT lo_create(70001)"),
            ("template1", "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC"),
            ("closed", "SELECT lo_create(70001)"),
        ):
            with place.open(names[0], passwords[0], dbname=database) as session:
                session.execute(change.encode())
        admin.execute("ALTER DATABASE closed ALLOW_CONNECTIONS false")
        place.logins.drop(place.server, names)
        assert admin.execute("SELECT FROM pg_roles WHERE rolname = ANY(%s)", (names,)).fetchall() == []
        query = "SELECT datallowconn, datconnlimit FROM pg_database WHERE datname = 'closed'"
        assert admin.execute(query).fetchall() == [(False, -1)]
        admin.execute("DROP DATABASE closed")
    with place.open("tsdbadmin", place.password, dbname="template1") as admin:
        admin.execute("SELECT lo_unlink(70001)")


def test_a_login_that_cannot_be_dropped_now_does_not_keep_those_after_it(place: Place) -> None:
    names = ["ramet_login_first", "ramet_login_second"]
    passwords = [place.make(name) for name in names]
    with place.open(names[0], passwords[0]) as session:
        session.execute("SET ROLE NONE")
        session.execute("CREATE SCHEMA kept CREATE TABLE kept (id int)")
    with connections.connect(place.instances.paths(place.server.service_id), "tsdb") as platform:
        with platform.transaction():
            platform.execute("LOCK kept.kept")
            with pytest.raises(Unavailable, match="were not dropped yet"):
                place.logins.drop(place.server, names)
        found = platform.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)", (names,)).fetchall()
        assert found == [(names[0],)]
    place.logins.drop(place.server, names)


def test_a_login_is_dropped_that_has_something_in_a_database_whose_removal_was_interrupted(place: Place) -> None:
    password = place.make("ramet_login_first")
    with connections.connect(place.instances.paths(place.server.service_id)) as platform:
        platform.execute("CREATE DATABASE broken")
        with place.open("ramet_login_first", password, dbname="broken") as session:
            session.execute("SELECT lo_create(70001)")
        platform.execute("ALTER DATABASE broken OWNER TO ramet_login_first")
        platform.execute("UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'broken'")
        place.logins.drop(place.server, ["ramet_login_first"])
        assert platform.execute("SELECT FROM pg_roles WHERE rolname = 'ramet_login_first'").fetchall() == []
        platform.execute("DROP DATABASE broken")


@pytest.mark.parametrize("database", ["tsdb", "template1"])
def test_a_prepared_transaction_that_makes_something_for_a_login_does_not_keep_it(place: Place, database: str) -> None:
    password = place.make("ramet_login_first")
    names_it = "pg_advisory_xact_lock('pg_authid'::regclass::oid::int, 'ramet_login_first'::regrole::oid::int)"
    with place.open("tsdbadmin", place.password, dbname=database) as admin:
        for gid, change in (("kept", f"SELECT lo_create(70002), {names_it}"), ("ended", "SELECT lo_create(70001)")):
            user = ("tsdbadmin", place.password) if gid == "kept" else ("ramet_login_first", password)
            with place.open(*user, dbname=database) as session:
                for statement in ("SET ROLE NONE", "BEGIN", change, f"PREPARE TRANSACTION '{gid}'"):
                    session.execute(statement.encode())
        place.logins.drop(place.server, ["ramet_login_first"])
        assert admin.execute("SELECT FROM pg_roles WHERE rolname = 'ramet_login_first'").fetchall() == []
        assert admin.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == [("kept",)]
        admin.execute("ROLLBACK PREPARED 'kept'")


def test_nothing_stays_prepared_of_a_login_or_of_one_that_an_earlier_release_has_dropped(place: Place) -> None:
    passwords = {name: place.make(name, read_only=True) for name in ("ramet_login_gone", "ramet_login_view")}
    with place.open("tsdbadmin", place.password) as admin:
        admin.execute("CREATE TABLE orders (id int)")
        for user, password in (*passwords.items(), ("tsdbadmin", place.password)):
            with place.open(user, password) as session:
                for statement in ("BEGIN", "SELECT FROM orders", f"PREPARE TRANSACTION '{user}'"):
                    session.execute(statement.encode())
        with connections.connect(place.instances.paths(place.server.service_id)) as platform:
            platform.execute("DROP ROLE ramet_login_gone")
        place.logins.drop(place.server, ["ramet_login_view"])
        assert admin.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == [("tsdbadmin",)]
        admin.execute("ROLLBACK PREPARED 'tsdbadmin'")
        admin.execute("DROP TABLE orders")


def test_what_a_login_has_prepared_ends_with_it_and_what_others_have_is_waited_for_outside(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    password, entered = place.make("ramet_login_first"), list[str]()
    with place.open("ramet_login_first", password) as session:
        session.execute("SET ROLE NONE")
        session.execute("CREATE SCHEMA own CREATE TABLE own.goods (id int)")
        session.execute("GRANT USAGE ON SCHEMA own TO tsdbadmin")
        session.execute("GRANT INSERT ON own.goods TO tsdbadmin")
        for statement in ("BEGIN", "INSERT INTO own.goods VALUES (1)", "PREPARE TRANSACTION 'own'"):
            session.execute(statement.encode())
    with place.open("tsdbadmin", place.password) as admin:
        for statement in ("BEGIN", "INSERT INTO own.goods VALUES (2)", "PREPARE TRANSACTION 'others'"):
            admin.execute(statement.encode())
        with monkeypatch.context() as patched:
            for _ in range(2):
                with pytest.raises(Unavailable, match="A prepared transaction locks a table of the role"):
                    place.logins.drop(place.server, ["ramet_login_first"])
                patched.setattr(closed_databases, "entered", lambda _, database: entered.append(database.name))
        assert entered == []
        assert admin.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == [("others",)]
        admin.execute("COMMIT PREPARED 'others'")
        place.logins.drop(place.server, ["ramet_login_first"])
        assert _owners(place, "goods") == [("goods", "tsdbadmin")]
        admin.execute("DROP SCHEMA own CASCADE")


def test_a_database_that_is_locked_is_not_entered_and_keeps_no_other_login(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["ramet_login_first", "ramet_login_fourth", "ramet_login_second", "ramet_login_third"]
    passwords = {name: place.make(name) for name in names}
    tried: list[str] = []
    entered = closed_databases.entered

    def note(*at: Any) -> AbstractContextManager[connections.Connection]:
        tried.append(at[1].name)
        return entered(*at)

    monkeypatch.setattr(closed_databases, "entered", note)
    with connections.connect(place.instances.paths(place.server.service_id)) as platform:
        platform.execute("CREATE DATABASE renamed")
        for name, database in ((names[0], "renamed"), (names[1], "renamed"), (names[2], "template1")):
            with place.open(name, passwords[name], dbname=database) as session:
                session.execute("SET ROLE NONE")
                session.execute("SELECT lo_create(0)")
        for statement in ("BEGIN", "ALTER DATABASE renamed RENAME TO other", "PREPARE TRANSACTION 'renames'"):
            platform.execute(statement.encode())
        with pytest.raises(Unavailable):
            place.logins.drop(place.server, names)
        query = "SELECT rolname FROM pg_roles WHERE rolname = ANY(%s) ORDER BY 1"
        assert platform.execute(query, (names,)).fetchall() == [(name,) for name in names[:2]]
        assert tried == ["template1"]
        platform.execute("ROLLBACK PREPARED 'renames'")
        place.logins.drop(place.server, names)
        assert platform.execute(query, (names,)).fetchall() == []
        platform.execute("DROP DATABASE renamed WITH (FORCE)")


def test_a_prepared_transaction_that_changes_a_disabled_role_does_not_keep_it(place: Place) -> None:
    place.make("ramet_login_disabled")
    with connections.connect(place.instances.paths(place.server.service_id)) as platform:
        platform.execute("ALTER ROLE ramet_login_disabled NOLOGIN")
        platform.execute("BEGIN")
        platform.execute("ALTER ROLE ramet_login_disabled CONNECTION LIMIT 1")
        platform.execute("PREPARE TRANSACTION 'ended'")
        place.logins.drop(place.server, ["ramet_login_disabled"])
        assert platform.execute("SELECT FROM pg_roles WHERE rolname = 'ramet_login_disabled'").fetchall() == []


@pytest.mark.parametrize(
    ("renamed", "code"), [("DATABASE tsdb", "DATABASE_MISSING"), ("ROLE tsdbadmin", "ADMIN_MISSING")]
)
def test_a_login_with_the_admins_rights_is_refused_where_there_is_no_admin_or_database(
    place: Place, renamed: str, code: str
) -> None:
    kind, name = renamed.split()
    with connections.connect(place.instances.paths(place.server.service_id)) as platform:
        platform.execute(f"ALTER {renamed} RENAME TO app".encode())
        try:
            with pytest.raises(WrongState, match=name) as caught:
                place.make("ramet_login_first")
            place.make("ramet_login_read", read_only=True)
        finally:
            platform.execute(f"ALTER {kind} app RENAME TO {name}".encode())
        assert caught.value.code == code
        query = "SELECT rolname FROM pg_roles WHERE starts_with(rolname, 'ramet_login_') ORDER BY 1"
        assert platform.execute(query).fetchall() == [("ramet_login_read",)]
    place.logins.drop(place.server, ["ramet_login_read"])


def test_no_role_but_a_login_is_dropped(place: Place) -> None:
    place.logins.drop(place.server, ["tsdbadmin", "ramet"])
    place.open("tsdbadmin", place.password).close()


def test_of_recovered_logins_none_can_log_in_and_one_stays_that_something_keeps(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    passwords = {name: place.make(name) for name in ("ramet_login_kept", "ramet_login_lost")}
    with place.open("ramet_login_kept", passwords["ramet_login_kept"], dbname="template1") as session:
        session.execute("SET ROLE NONE")
        session.execute("SELECT lo_create(0)")
    query = "SELECT rolname, rolcanlogin FROM pg_roles WHERE starts_with(rolname, 'ramet_login_')"
    with connections.connect(place.instances.paths(place.server.service_id), "template1") as platform:
        with platform.transaction():
            platform.execute("LOCK pg_largeobject_metadata")
            place.logins.drop_all(place.server)
            assert platform.execute(query).fetchall() == [("ramet_login_kept", False)]
        assert "ramet_login_kept" in caplog.text
        for _ in range(2):
            place.logins.drop_all(place.server)
            assert platform.execute(query).fetchall() == []
