"""Sessions and roles that are to read only really cannot write, and nobody else notices."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace

import psycopg
import pytest

from ramet.backends.base import Server
from ramet.backends.local.servers import Servers
from ramet.model.credentials import Secret, new_password
from tests.backends.local.hosts import boot, connect, new_server

READ_ONLY = "-c tsdb_admin.read_only_connection=true"


@dataclass(frozen=True)
class Tenant:
    server: Server
    password: Secret
    role: str = "tsdbadmin"

    def run(self, *statements: str, **changes: str) -> list[tuple[object, ...]]:
        with connect(self.server, self.password, user=self.role, sslmode="prefer", **changes) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module")
def tenant(servers: Servers) -> Iterator[Tenant]:
    password = new_password()
    server = new_server(servers, password)
    boot(servers, server)
    servers.secure(server, newborn=True, quiet=False)
    servers.open(server)
    made = Tenant(server, password)
    made.run(
        "CREATE TABLE orders (id serial PRIMARY KEY, title text)",
        "INSERT INTO orders (title) SELECT 'order ' || n FROM generate_series(1, 10) n",
        "CREATE TABLE parts (id int, at date) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (100)",
        "CREATE TABLE copies AS SELECT * FROM orders",
        "CREATE VIEW titles AS SELECT id, title FROM orders",
        "CREATE FUNCTION add_order() RETURNS void SECURITY DEFINER LANGUAGE sql"
        " AS $$INSERT INTO orders (title) VALUES ('by function')$$",
    )
    yield made
    servers.remove(server.service_id, 10)


WRITES = [
    ["INSERT INTO orders (title) VALUES ('x')"],
    ["UPDATE orders SET title = 'x'"],
    ["DELETE FROM orders"],
    ["TRUNCATE orders"],
    ["INSERT INTO parts VALUES (1, now())"],
    ["INSERT INTO parts_1 VALUES (1, now())"],
    ["DELETE FROM copies"],
    ["UPDATE titles SET title = 'x'"],
    ["WITH gone AS (DELETE FROM orders RETURNING id) SELECT count(*) FROM gone"],
    ["SELECT add_order()"],
    ["CREATE TABLE mine (id int)"],
    ["SELECT * INTO mine FROM orders"],
    ["DROP TABLE orders"],
    ["ALTER TABLE orders ADD COLUMN more int"],
    ["CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'"],
    ["DROP TRIGGER ramet_read_only ON orders"],
    ["ALTER TABLE orders DISABLE TRIGGER ramet_read_only"],
    ["GRANT INSERT ON orders TO PUBLIC"],
]
ESCAPES = [
    [],
    ["SET default_transaction_read_only = off"],
    ["BEGIN READ WRITE"],
    ["SET tsdb_admin.read_only_connection = false"],
    ["SET tsdb_admin.read_only_connection = ''"],
    ["RESET tsdb_admin.read_only_connection"],
    ["DISCARD ALL"],
    ["SELECT set_config('tsdb_admin.read_only_role', 'false', false)"],
    ["CREATE TEMP TABLE current_setting (x int)", "SET search_path = pg_temp"],
]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write[0])
def test_a_read_only_session_cannot_write(tenant: Tenant, write: list[str]) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        tenant.run(*write, options=READ_ONLY)
    assert tenant.run("SELECT count(*) FROM orders") == [(10,)]


@pytest.mark.parametrize("escape", ESCAPES, ids="; ".join)
def test_a_read_only_session_stays_so_whatever_it_sets(tenant: Tenant, escape: list[str]) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        tenant.run(*escape, "DELETE FROM public.orders", options=READ_ONLY)
    assert tenant.run("SELECT count(*) FROM orders") == [(10,)]


def test_a_read_only_session_cannot_copy_into_a_table(tenant: Tenant) -> None:
    with (
        connect(tenant.server, tenant.password, sslmode="prefer", options=READ_ONLY) as connection,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
        connection.cursor().copy("COPY orders (title) FROM STDIN") as copy,
    ):
        copy.write("x\n")


def test_a_read_only_session_reads(tenant: Tenant) -> None:
    assert tenant.run("SELECT count(*) FROM orders", options=READ_ONLY) == [(10,)]
    assert tenant.run("EXPLAIN SELECT * FROM titles", options=READ_ONLY)


@pytest.mark.parametrize("option", ["-c tsdb_admin.read_only_connection=false", ""])
def test_other_sessions_write(tenant: Tenant, option: str) -> None:
    assert len(tenant.run("UPDATE orders SET title = title RETURNING id", options=option)) == 10


def test_a_session_may_ask_for_it_later_and_take_that_back(tenant: Tenant) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        tenant.run("SET tsdb_admin.read_only_connection = true", "DELETE FROM orders")
    rows = tenant.run(
        "SET tsdb_admin.read_only_connection = true",
        "RESET tsdb_admin.read_only_connection",
        "UPDATE orders SET title = title RETURNING id",
    )
    assert len(rows) == 10


def test_a_read_only_role_cannot_write_even_with_the_admins_rights(tenant: Tenant) -> None:
    tenant.run(
        "CREATE ROLE agent LOGIN PASSWORD 'agents-own'",
        "GRANT tsdbadmin TO agent" if tenant.server.pg_major < 16 else "GRANT ALL ON orders TO agent",
        "ALTER ROLE agent SET tsdb_admin.read_only_role = true",
    )
    agent = replace(tenant, password=Secret("agents-own"), role="agent")
    assert agent.run("SELECT count(*) FROM orders") == [(10,)]
    for escape in (
        [],
        *([["SET ROLE tsdbadmin"]] if tenant.server.pg_major < 16 else []),
        ["BEGIN READ WRITE"],
        ["SET tsdb_admin.read_only_role = false"],
    ):
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            agent.run(*escape, "DELETE FROM orders")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        agent.run("DELETE FROM orders", options="-c tsdb_admin.read_only_role=false")
    assert tenant.run("SELECT count(*) FROM orders") == [(10,)]


def test_nothing_of_it_is_in_a_dump_or_in_what_tools_show(tenant: Tenant, servers: Servers) -> None:
    program = servers.installations.default.program("pg_dump")
    uri = f"host=localhost port={tenant.server.port} user=tsdbadmin dbname=tsdb sslmode=prefer"
    environ = {"PGPASSWORD": tenant.password.reveal(), "PATH": "/usr/bin:/bin"}
    dump = subprocess.run([program, uri], env=environ, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "CREATE TABLE public.orders" in dump
    assert "ramet" not in dump
    assert tenant.run("SELECT trigger_name FROM information_schema.triggers") == []


def test_the_guard_belongs_to_the_platform(tenant: Tenant) -> None:
    for statement in (
        "DROP EVENT TRIGGER ramet_guard_tables",
        "ALTER EVENT TRIGGER ramet_guard_tables DISABLE",
        "DROP EXTENSION plpgsql CASCADE",
        "DROP FUNCTION pg_catalog.ramet_reads_only()",
        "CREATE OR REPLACE FUNCTION pg_catalog.ramet_reads_only() RETURNS boolean LANGUAGE sql AS 'SELECT false'",
        "DROP TRIGGER ramet_read_only ON orders",
        "ALTER TRIGGER ramet_read_only ON orders RENAME TO mine",
        "ALTER TABLE orders DISABLE TRIGGER ramet_read_only",
        "CREATE OR REPLACE TRIGGER ramet_read_only BEFORE INSERT ON orders EXECUTE FUNCTION tsvector_update_trigger()",
    ):
        with pytest.raises(psycopg.Error):
            tenant.run(statement)


def test_databases_that_tenants_make_are_guarded_too(tenant: Tenant) -> None:
    tenant.run("CREATE DATABASE second")
    tenant.run("CREATE TABLE t (id int)", dbname="second")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        tenant.run("INSERT INTO t VALUES (1)", dbname="second", options=READ_ONLY)


def test_tables_that_come_with_their_schema_are_guarded_too(tenant: Tenant) -> None:
    tenant.run("CREATE SCHEMA quick CREATE TABLE t (id int)")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        tenant.run("INSERT INTO quick.t VALUES (1)", options=READ_ONLY)


def test_guards_go_with_their_tables_and_hinder_no_other_triggers(tenant: Tenant) -> None:
    tenant.run(
        "CREATE SCHEMA going",
        "CREATE TABLE going.one (id int)",
        "CREATE TABLE going.two (id int)",
        "CREATE TRIGGER own BEFORE UPDATE ON going.one EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "ALTER TRIGGER own ON going.one RENAME TO another",
        "DROP TRIGGER another ON going.one",
        "ALTER TABLE going.one ALTER id TYPE bigint, ADD COLUMN more int",
        "DROP TABLE going.one",
        "DROP SCHEMA going CASCADE",
        "CREATE ROLE leaver",
        "GRANT leaver TO tsdbadmin",
        "CREATE TABLE left_behind (id int)",
        "GRANT CREATE ON SCHEMA public TO leaver",
        "ALTER TABLE left_behind OWNER TO leaver",
        "DROP OWNED BY leaver",
    )
    assert tenant.run("SELECT to_regclass('left_behind')") == [(None,)]
