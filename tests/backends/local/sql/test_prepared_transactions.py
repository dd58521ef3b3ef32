"""Prepared transactions that change roles or databases end with the fork; others are kept on PROD forks."""

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, securing, session_settings
from ramet.backends.local.sql.connections import value
from ramet.errors import Failed
from ramet.model.passwords import new_password, scram_verifier
from tests.backends.local.hosts import boot, connect, new_server, restart
from tests.servers import installations

CHANGES_OF_ROLES = (
    "ALTER ROLE tsdbadmin PASSWORD 'x'",
    "CREATE ROLE guest LOGIN PASSWORD 'parents'",
    "ALTER ROLE other RENAME TO another",
    "GRANT tsdbadmin TO other",
    "ALTER ROLE tsdbadmin SET local_preload_libraries = 'nowhere'",
    "ALTER DATABASE tsdb RENAME TO gone",
)


@pytest.fixture(scope="module", params=sorted(installations().by_major))
def server(instances: Instances, request: pytest.FixtureRequest) -> Iterator[Server]:
    made = new_server(instances, pg_major=request.param)
    boot(instances, made)
    instances.secure(made, is_new=True, neutralize=False)
    with connections.connect(instances.paths(made.service_id)) as platform:
        platform.execute("CREATE ROLE other")
        platform.execute("CREATE DATABASE shut OWNER tsdbadmin")
    yield made
    instances.remove(made.service_id, 10)


def prepare(instances: Instances, server: Server, name: str, *statements: str, database: str = "postgres") -> None:
    with connections.connect(instances.paths(server.service_id), database) as platform:
        platform.execute("BEGIN")
        for statement in statements:
            platform.execute(statement.encode())
        platform.execute(f"PREPARE TRANSACTION '{name}'".encode())


def sessions_in_tsdb(instances: Instances, server: Server) -> object:
    with connections.connect(instances.paths(server.service_id)) as platform:
        return value(platform, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'tsdb'")


def left(instances: Instances, server: Server) -> list[str]:
    with connections.connect(instances.paths(server.service_id)) as platform:
        return [str(row[0]) for row in platform.execute("SELECT gid FROM pg_prepared_xacts ORDER BY 1").fetchall()]


@pytest.mark.parametrize("neutralize", [True, False])
@pytest.mark.parametrize("statement", CHANGES_OF_ROLES)
def test_prepared_transactions_that_change_roles_or_databases_are_rolled_back_and_reported(
    instances: Instances, server: Server, statement: str, neutralize: bool
) -> None:
    prepare(instances, server, "roles", statement)
    instances.stop(server, 30)
    restart(instances, server)
    found = instances.secure(server, is_new=False, neutralize=neutralize)
    assert found["prepared_transactions"] == ["postgres: roles"]
    assert found["prepared_transactions_rolled_back"] == 1
    assert not left(instances, server)
    eventually(lambda: sessions_in_tsdb(instances, server) == 0)


def test_other_prepared_transactions_are_kept_unless_the_fork_is_neutralized(
    instances: Instances, server: Server
) -> None:
    for database in ("tsdb", "postgres"):
        prepare(
            instances,
            server,
            f"kept in {database}",
            "CREATE TABLE public.made (id int)",
            "GRANT SELECT ON public.made TO other",
            "SELECT count(*) FROM pg_roles",
            database=database,
        )
    assert instances.secure(server, is_new=False, neutralize=False)["prepared_transactions_rolled_back"] == 0
    assert left(instances, server) == ["kept in postgres", "kept in tsdb"]
    assert instances.secure(server, is_new=False, neutralize=True)["prepared_transactions_rolled_back"] == 2
    assert not left(instances, server)


def test_a_prepared_transaction_is_rolled_back_that_keeps_what_a_fork_has_to_change(
    instances: Instances, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(session_settings._OURS, "lock_timeout", "200ms")
    with connections.connect(instances.paths(server.service_id)) as platform:
        platform.execute("ALTER DATABASE tsdb CONNECTION LIMIT 0")
    prepare(instances, server, "granted", "GRANT CREATE ON DATABASE tsdb TO tsdbadmin")
    found = instances.secure(server, is_new=False, neutralize=False)
    assert (found["prepared_transactions"], found["settings_removed"]) == (
        ["postgres: granted"],
        ["connection_limit=0"],
    )
    assert found["prepared_transactions_rolled_back"] == 1
    assert not left(instances, server)


def test_a_service_that_has_moved_loses_only_the_prepared_transactions_that_keep_its_logins(
    instances: Instances, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(session_settings._OURS, "lock_timeout", "200ms")
    with connections.connect(instances.paths(server.service_id)) as platform:
        platform.execute("CREATE ROLE ramet_login_dev LOGIN")
    prepare(instances, server, "kept", "CREATE TABLE public.made (id int)")
    prepare(instances, server, "login", "ALTER ROLE ramet_login_dev PASSWORD 'x'")
    securing.secure_moved(instances.paths(server.service_id), server)
    assert left(instances, server) == ["kept"]
    with connections.connect(instances.paths(server.service_id)) as platform:
        logs_in = value(platform, "SELECT rolcanlogin FROM pg_roles WHERE rolname = 'ramet_login_dev'")
        platform.execute("ROLLBACK PREPARED 'kept'")
        platform.execute("DROP ROLE ramet_login_dev")
    assert logs_in is False


def test_prepared_transactions_of_a_closed_database_are_rolled_back_too(instances: Instances, server: Server) -> None:
    prepare(instances, server, "roles", "ALTER ROLE tsdbadmin CONNECTION LIMIT 0", database="shut")
    with connections.connect(instances.paths(server.service_id)) as platform:
        platform.execute("ALTER DATABASE shut ALLOW_CONNECTIONS false")
    found = instances.secure(server, is_new=False, neutralize=False)
    assert found["databases_not_entered"] == ["shut"]
    assert not left(instances, server)
    with connections.connect(instances.paths(server.service_id)) as platform:
        shut = platform.execute("SELECT datallowconn FROM pg_database WHERE datname = 'shut'").fetchone()
        platform.execute("ALTER DATABASE shut ALLOW_CONNECTIONS true")
    assert shut == (False,)


@pytest.mark.parametrize("statement", CHANGES_OF_ROLES[:2])
def test_prepared_transactions_of_a_template_are_rolled_back_too(
    instances: Instances, server: Server, statement: str
) -> None:
    prepare(instances, server, "roles", statement, database="template1")
    found = instances.secure(server, is_new=False, neutralize=False)
    assert found["prepared_transactions"] == ["template1: roles"]
    assert found["databases_not_entered"] == []
    assert not left(instances, server)


def _close(instances: Instances, server: Server, *databases: str) -> None:
    with connections.connect(instances.paths(server.service_id)) as platform:
        for database in databases:
            connections.run(platform, "ALTER DATABASE {} ALLOW_CONNECTIONS false", database)


@pytest.fixture
def pair(instances: Instances, server: Server) -> Iterator[None]:
    with connections.connect(instances.paths(server.service_id)) as platform:
        platform.execute("CREATE DATABASE aaa")
        platform.execute("CREATE DATABASE zzz")
    yield
    with connections.connect(instances.paths(server.service_id)) as platform:
        platform.execute("DROP DATABASE aaa")
        platform.execute("DROP DATABASE zzz")


@pytest.mark.usefixtures("pair")
@pytest.mark.parametrize("closed", [("aaa",), ("aaa", "zzz")])
def test_a_closed_database_that_another_one_locks_has_its_turn_later(
    instances: Instances, server: Server, closed: tuple[str, ...]
) -> None:
    prepare(instances, server, "first", "SELECT 1", database="aaa")
    _close(instances, server, *closed[:1])
    prepare(instances, server, "second", "ALTER DATABASE aaa CONNECTION LIMIT 7", database="zzz")
    _close(instances, server, *closed[1:])
    found = instances.secure(server, is_new=False, neutralize=True)
    assert found["prepared_transactions_rolled_back"] == len(("first", "second"))
    assert set(closed) <= set(found["databases_not_entered"])
    assert not left(instances, server)


@pytest.mark.usefixtures("pair")
def test_closed_databases_that_lock_each_other_are_named(instances: Instances, server: Server) -> None:
    with connections.connect(instances.paths(server.service_id), "zzz") as second:
        _close(instances, server, "zzz")
        prepare(instances, server, "first", "ALTER DATABASE zzz CONNECTION LIMIT 7", database="aaa")
        _close(instances, server, "aaa")
        second.execute("BEGIN")
        second.execute("ALTER DATABASE aaa CONNECTION LIMIT 7")
        second.execute("PREPARE TRANSACTION 'second'")
        with pytest.raises(Failed, match="accept no connections: aaa, zzz") as caught:
            instances.secure(server, is_new=False, neutralize=True)
        assert caught.value.code == "PREPARED_TRANSACTIONS_LOCKED"
        second.execute("ROLLBACK PREPARED 'second'")
    instances.secure(server, is_new=False, neutralize=True)
    assert not left(instances, server)


def test_no_password_of_the_parent_opens_a_fork_later(instances: Instances, server: Server) -> None:
    password = new_password()
    fork = replace(server, verifier=scram_verifier(password))
    prepare(instances, server, "late", "CREATE ROLE guest LOGIN PASSWORD 'parents'")
    instances.secure(fork, is_new=False, neutralize=False)
    instances.open(fork)
    with (
        connect(fork, password, sslmode="prefer", dbname="postgres") as admin,
        pytest.raises(psycopg.errors.UndefinedObject),
    ):
        admin.execute("COMMIT PREPARED 'late'")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(fork, "parents", user="guest", sslmode="prefer")
    instances.close(fork)
