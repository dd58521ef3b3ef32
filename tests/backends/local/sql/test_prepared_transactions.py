"""Prepared transactions that change roles or databases end with the fork; others are kept on PROD forks."""

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.server.servers import Servers
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.rows import value
from ramet.machine.installation import find_installations
from ramet.model.passwords import new_password, scram_verifier
from tests.backends.local.hosts import boot, connect, new_server, restart

CHANGES_OF_ROLES = (
    "ALTER ROLE tsdbadmin PASSWORD 'x'",
    "CREATE ROLE guest LOGIN PASSWORD 'parents'",
    "ALTER ROLE other RENAME TO another",
    "GRANT tsdbadmin TO other",
    "ALTER ROLE tsdbadmin SET local_preload_libraries = 'nowhere'",
    "ALTER DATABASE tsdb RENAME TO gone",
)


@pytest.fixture(scope="module", params=sorted(find_installations().by_major))
def server(servers: Servers, request: pytest.FixtureRequest) -> Iterator[Server]:
    made = new_server(servers, pg_major=request.param)
    boot(servers, made)
    servers.secure(made, is_new=True, quiet=False)
    with connections.connect(servers.paths(made.service_id)) as platform:
        platform.execute("CREATE ROLE other")
        platform.execute("CREATE DATABASE shut OWNER tsdbadmin")
    yield made
    servers.remove(made.service_id, 10)


def prepare(servers: Servers, server: Server, name: str, *statements: str, database: str = "postgres") -> None:
    with connections.connect(servers.paths(server.service_id), database) as platform:
        platform.execute("BEGIN")
        for statement in statements:
            platform.execute(statement.encode())
        platform.execute(f"PREPARE TRANSACTION '{name}'".encode())


def sessions_in_tsdb(servers: Servers, server: Server) -> object:
    with connections.connect(servers.paths(server.service_id)) as platform:
        return value(platform, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'tsdb'")


def left(servers: Servers, server: Server) -> list[str]:
    with connections.connect(servers.paths(server.service_id)) as platform:
        return [str(row[0]) for row in platform.execute("SELECT gid FROM pg_prepared_xacts ORDER BY 1").fetchall()]


@pytest.mark.parametrize("quiet", [True, False])
@pytest.mark.parametrize("statement", CHANGES_OF_ROLES)
def test_prepared_transactions_that_change_roles_or_databases_are_rolled_back_and_reported(
    servers: Servers, server: Server, statement: str, quiet: bool
) -> None:
    prepare(servers, server, "roles", statement)
    servers.stop(server, 30)
    restart(servers, server)
    found = servers.secure(server, is_new=False, quiet=quiet)
    assert found["prepared_transactions"] == ["postgres: roles"]
    assert found["prepared_transactions_rolled_back"] == 1
    assert not left(servers, server)
    eventually(lambda: sessions_in_tsdb(servers, server) == 0)


def test_other_prepared_transactions_are_kept_unless_the_fork_is_neutralized(servers: Servers, server: Server) -> None:
    for database in ("tsdb", "postgres"):
        prepare(
            servers,
            server,
            f"kept in {database}",
            "CREATE TABLE public.made (id int)",
            "GRANT SELECT ON public.made TO other",
            "SELECT count(*) FROM pg_roles",
            database=database,
        )
    assert servers.secure(server, is_new=False, quiet=False)["prepared_transactions_rolled_back"] == 0
    assert left(servers, server) == ["kept in postgres", "kept in tsdb"]
    assert servers.secure(server, is_new=False, quiet=True)["prepared_transactions_rolled_back"] == 2
    assert not left(servers, server)


def test_prepared_transactions_of_a_closed_database_are_rolled_back_too(servers: Servers, server: Server) -> None:
    prepare(servers, server, "roles", "ALTER ROLE tsdbadmin CONNECTION LIMIT 0", database="shut")
    with connections.connect(servers.paths(server.service_id)) as platform:
        platform.execute("ALTER DATABASE shut ALLOW_CONNECTIONS false")
    found = servers.secure(server, is_new=False, quiet=False)
    assert found["databases_not_entered"] == ["shut"]
    assert not left(servers, server)
    with connections.connect(servers.paths(server.service_id)) as platform:
        shut = platform.execute("SELECT datallowconn FROM pg_database WHERE datname = 'shut'").fetchone()
        platform.execute("ALTER DATABASE shut ALLOW_CONNECTIONS true")
    assert shut == (False,)


def test_no_password_of_the_parent_opens_a_fork_later(servers: Servers, server: Server) -> None:
    password = new_password()
    fork = replace(server, verifier=scram_verifier(password))
    prepare(servers, server, "late", "CREATE ROLE guest LOGIN PASSWORD 'parents'")
    servers.secure(fork, is_new=False, quiet=False)
    servers.open(fork)
    with (
        connect(fork, password, sslmode="prefer", dbname="postgres") as admin,
        pytest.raises(psycopg.errors.UndefinedObject),
    ):
        admin.execute("COMMIT PREPARED 'late'")
    with pytest.raises(psycopg.OperationalError):
        connect(fork, "parents", user="guest", sslmode="prefer")
    servers.close(fork)
