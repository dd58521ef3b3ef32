"""What the admin of a tenant cannot do: reach the host, the platform's role, or another role's power."""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.model.passwords import Secret, new_password
from tests.backends.local.hosts import boot, connect, new_server

WITHHELD = (*("pg_execute_server_program", "pg_read_server_files", "pg_write_server_files"), "pg_write_all_data")


@dataclass(frozen=True)
class Tenant:
    server: Server
    password: Secret

    def run(self, *statements: str, **changes: str) -> list[tuple[object, ...]]:
        with connect(self.server, self.password, **changes) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module")
def tenant(instances: Instances) -> Iterator[Tenant]:
    password = new_password()
    server = new_server(instances, password)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    yield Tenant(server, password)
    instances.remove(server.service_id, 10)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TEMP TABLE t (line text)", "COPY t FROM PROGRAM 'id'"],
        ["COPY (SELECT 1) TO PROGRAM 'cat'"],
        ["COPY (SELECT 1) TO '/tmp/ramet-escape'"],
        ["CREATE TEMP TABLE t (line text)", "COPY t FROM '/etc/passwd'"],
        ["SELECT pg_read_file('postgresql.conf')"],
        ["SELECT pg_read_binary_file('PG_VERSION')"],
        ["SELECT pg_ls_dir('.')"],
        ["SELECT pg_stat_file('PG_VERSION')"],
        ["SELECT lo_import('/etc/passwd')"],
        ["SELECT lo_export(lo_create(0), '/tmp/ramet-escape')"],
        ["CREATE FUNCTION public.f() RETURNS int LANGUAGE c AS 'libc', 'getpid'"],
        ["CREATE FUNCTION public.f() RETURNS int LANGUAGE internal AS 'int4pl'"],
        ["LOAD 'pg_stat_statements'"],
        ["CREATE EXTENSION file_fdw"],
        ["CREATE EXTENSION dblink"],
        ["CREATE EXTENSION plpython3u"],
        ["ALTER SYSTEM SET work_mem = '8MB'"],
        ["SET SESSION AUTHORIZATION ramet"],
        ["SET ROLE ramet"],
        ["GRANT ramet TO tsdbadmin"],
        ["ALTER ROLE ramet PASSWORD 'x'"],
        ["ALTER ROLE ramet SET role = 'tsdbadmin'"],
        ["ALTER ROLE tsdbadmin SUPERUSER"],
        ["CREATE ROLE escape SUPERUSER"],
        ["CREATE ROLE escape REPLICATION"],
        ["CREATE ROLE escape BYPASSRLS"],
        ["SET session_replication_role = replica"],
        ["SET log_statement = 'all'"],
        ["SET session_preload_libraries = 'x'"],
        ["CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION suppress_redundant_updates_trigger()"],
        ["SELECT rolpassword FROM pg_authid"],
        ["SELECT pg_create_physical_replication_slot('s')"],
        ["SELECT pg_switch_wal()"],
        ["SELECT pg_backup_start('x')"],
        ["SELECT pg_promote()"],
        ["CREATE TABLESPACE s LOCATION '/tmp'"],
        ["BEGIN", "LOCK TABLE pg_catalog.pg_authid IN ACCESS EXCLUSIVE MODE"],
        ["BEGIN", "LOCK TABLE pg_catalog.pg_database IN SHARE MODE"],
        ["REINDEX TABLE pg_catalog.pg_authid"],
        ["CREATE SUBSCRIPTION s CONNECTION 'host=x' PUBLICATION p WITH (connect = false)"],
        ["UPDATE pg_database SET datallowconn = false"],
        ["SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ramet' AND false", "RESET ROLE",
         "ALTER DATABASE postgres SET role = 'tsdbadmin'"],
    ],
    ids=lambda statements: statements[-1][:40],
)  # fmt: skip
def test_the_admin_is_refused(tenant: Tenant, statements: list[str]) -> None:
    with pytest.raises(psycopg.Error) as refused:
        tenant.run(*statements)
    assert refused.value.sqlstate in ("42501", "0A000", "42704", "55P02", "22023"), refused.value


@pytest.mark.parametrize("role", WITHHELD)
def test_no_tenant_can_become_a_member_of_a_role_that_accesses_the_host_or_locks_catalogs(
    tenant: Tenant, role: str
) -> None:
    for statement in (f"GRANT {role} TO tsdbadmin", f"SET ROLE {role}", f"CREATE ROLE {role}"):
        with pytest.raises(psycopg.Error):
            tenant.run(statement)
    tenant.run("CREATE ROLE helper CREATEROLE", "GRANT helper TO tsdbadmin")
    try:
        tenant.run("SET ROLE helper")
        with pytest.raises(psycopg.errors.UndefinedObject, match=f'role "{role}" does not exist'):
            tenant.run("SET ROLE helper", f"GRANT {role} TO helper")
        with pytest.raises(psycopg.errors.UndefinedObject, match=f'role "{role}" does not exist'):
            tenant.run(f"GRANT {role} TO helper")
    finally:
        tenant.run("DROP ROLE helper")
    with pytest.raises(psycopg.Error):
        tenant.run("COPY (SELECT 1) TO PROGRAM 'cat'")


@pytest.mark.parametrize(
    ("user", "said"), [("ramet", "pg_hba.conf rejects"), ("postgres", "password authentication failed")]
)
def test_the_platform_cannot_be_reached_over_tcp(tenant: Tenant, user: str, said: str) -> None:
    with pytest.raises(psycopg.OperationalError, match=said):
        connect(tenant.server, tenant.password, user=user)


def test_the_private_socket_is_out_of_reach_and_lets_tenants_in_by_password_alone(
    tenant: Tenant, instances: Instances
) -> None:
    """The service's pooler comes this way with the passwords of its clients."""
    sockets = instances.paths(tenant.server.service_id).sockets
    assert sockets.stat().st_mode & 0o777 == 0o700
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(tenant.server, "wrong", host=str(sockets), sslmode="disable")


def test_connections_without_tls_are_refused(tenant: Tenant) -> None:
    with pytest.raises(psycopg.OperationalError, match="pg_hba"):
        connect(tenant.server, tenant.password, sslmode="disable")


def test_a_wrong_password_is_refused(tenant: Tenant) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(tenant.server, "wrong")


def test_the_admin_has_what_an_owner_needs(tenant: Tenant) -> None:
    tenant.run("CREATE ROLE app LOGIN PASSWORD 'secret'", "GRANT pg_monitor TO app", "DROP ROLE app")
    tenant.run("CREATE DATABASE other", "DROP DATABASE other")
    tenant.run("CREATE SCHEMA mine", "CREATE TABLE mine.t (n int)", "DROP SCHEMA mine CASCADE", "CHECKPOINT")
    tenant.run("ALTER ROLE tsdbadmin SET tsdb_admin.read_only_role = true", "ALTER ROLE tsdbadmin RESET ALL")
    options = "-c tsdb_admin.read_only_connection=true"
    assert tenant.run("SHOW tsdb_admin.read_only_connection", options=options) == [("true",)]
    assert tenant.run("SELECT count(*) > 0 FROM pg_stat_statements") == [(True,)]


def test_settings_of_tenants_do_not_affect_the_platform(tenant: Tenant, instances: Instances) -> None:
    settings = {
        "search_path": "public",
        "role": "tsdbadmin",
        "default_transaction_read_only": "on",
        "statement_timeout": "1ms",
        "lock_timeout": "1ms",
        "bytea_output": "escape",
        "datestyle": "German",
    }
    tenant.run(*(f"ALTER DATABASE tsdb SET {name} = '{value}'" for name, value in settings.items()))
    try:
        with connections.connect(instances.paths(tenant.server.service_id), "tsdb") as connection:
            assert connection.execute("SELECT current_user, session_user").fetchone() == ("ramet", "ramet")
            assert connection.execute("SELECT pg_sleep(0.01)").fetchone() is not None
            for name in settings:
                shown = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
                assert shown != (settings[name],)
            connection.execute("CREATE TABLE public.written ()")
            connection.execute("DROP TABLE public.written")
    finally:
        with connections.connect(instances.paths(tenant.server.service_id)) as connection:
            connection.execute("ALTER DATABASE tsdb RESET ALL")
