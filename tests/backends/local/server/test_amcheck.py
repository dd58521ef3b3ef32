"""A check for damage reads all databases, and reports nothing as damage that is none."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server import amcheck
from ramet.backends.local.server.amcheck import read_all
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Database, value
from ramet.backends.local.sql.tenant_code import Allowance
from ramet.errors import Unavailable
from tests.backends.local.hosts import boot, new_server

LACKS_A_ROW = """
CREATE TABLE public.plain AS SELECT n FROM generate_series(1, 1000) n;
CREATE INDEX plain_n ON public.plain (n);
UPDATE pg_index SET indisready = false WHERE indexrelid = 'public.plain_n'::regclass;
INSERT INTO public.plain VALUES (4711);
UPDATE pg_index SET indisready = true WHERE indexrelid = 'public.plain_n'::regclass
"""
# An index whose function ends the process of its session, as soon as it is armed.
KILLS = """
CREATE TABLE public.armed ();
CREATE FUNCTION public.compare(a int, b int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_class WHERE relname = 'armed') THEN
        COPY (SELECT 1) TO PROGRAM 'kill -9 $PPID';
    END IF;
    RETURN btint4cmp(a, b);
END $$;
DROP TABLE public.armed;
CREATE OPERATOR CLASS public.killing FOR TYPE int USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 public.compare(int, int);
CREATE TABLE public.odd AS SELECT n FROM generate_series(1, 10) n;
CREATE INDEX odd_n ON public.odd (n public.killing);
CREATE TABLE public.armed ()
"""


@pytest.fixture(name="paths")
def _paths(instances: Instances) -> Iterator[ServicePaths]:
    server = new_server(instances)
    boot(instances, server)
    yield instances.paths(server.service_id)
    instances.remove(server.service_id, 10)


def run(paths: ServicePaths, *statements: str, database: str = "postgres") -> None:
    with connections.connect(paths, database) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_a_prepared_transaction_that_renames_a_database_is_no_damage(paths: ServicePaths) -> None:
    run(paths, "CREATE DATABASE alpha", "CREATE DATABASE zeta")
    run(paths, "BEGIN", "ALTER DATABASE alpha RENAME TO x", "PREPARE TRANSACTION 'p'", database="zeta")
    assert read_all(paths, Allowance()) == ""


def test_a_database_that_accepts_no_connections_is_read(paths: ServicePaths) -> None:
    run(paths, "CREATE DATABASE closed")
    run(paths, *LACKS_A_ROW.split(";\n"), database="closed")
    run(paths, "ALTER DATABASE closed ALLOW_CONNECTIONS false")
    assert "closed.plain_n" in read_all(paths, Allowance())


def test_an_index_that_vacuum_keeps_locked_is_not_damaged(
    paths: ServicePaths, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run(paths, "CREATE TABLE public.vacuumed (id int PRIMARY KEY)")
    monkeypatch.setitem(amcheck._SETTINGS, "lock_timeout", "100ms")
    with connections.connect(paths) as holder, holder.transaction():
        holder.execute("LOCK public.vacuumed IN SHARE UPDATE EXCLUSIVE MODE")
        assert read_all(paths, Allowance()) == ""
    assert "vacuumed_pkey of service" in caplog.text


def test_a_database_that_cannot_be_entered_is_damaged_and_hides_no_other_damage(paths: ServicePaths) -> None:
    for name in ("alpha", "broken", "zeta"):
        run(paths, f"CREATE DATABASE {name}")
    for name in ("alpha", "zeta"):
        run(paths, *LACKS_A_ROW.split(";\n"), database=name)
    with connections.connect(paths) as connection:
        oid = value(connection, "SELECT oid FROM pg_database WHERE datname = 'broken'")
    (paths.data / "base" / str(oid) / "pg_filenode.map").write_bytes(bytes(512))
    found = read_all(paths, Allowance())
    for fault in ("alpha.plain_n: heap tuple", "broken: ", "pg_filenode.map", "zeta.plain_n: heap tuple"):
        assert fault in found


def test_damage_that_was_found_before_the_server_is_lost_is_reported(
    paths: ServicePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(paths, "CREATE DATABASE alpha", "CREATE DATABASE zeta")
    run(paths, *LACKS_A_ROW.split(";\n"), database="alpha")
    read = amcheck._database

    def read_until_lost(paths: ServicePaths, database: Database, allowance: Allowance) -> Iterator[str]:
        if database.name == "zeta":
            raise Unavailable("SERVER_UNREACHABLE", "The server does not accept connections")
        return read(paths, database, allowance)

    monkeypatch.setattr(amcheck, "_database", read_until_lost)
    assert "alpha.plain_n" in read_all(paths, Allowance())


def test_a_session_that_is_killed_finds_no_damage(paths: ServicePaths) -> None:
    run(paths, KILLS)
    with suppress(Unavailable):  # unless the server is back at once
        assert read_all(paths, Allowance()) == ""


def test_a_server_that_does_not_run_has_no_damage(instances: Instances) -> None:
    with pytest.raises(Unavailable):
        read_all(instances.paths("nowhere"), Allowance())
