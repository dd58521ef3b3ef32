"""A fork acts on nothing that its parent acts on."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from tests.backends.local.hosts import boot, new_server


@pytest.fixture(scope="module")
def server(instances: Instances) -> Iterator[Server]:
    made = new_server(instances)
    boot(instances, made)
    instances.secure(made, is_new=True, neutralize=False)
    with connections.connect(instances.paths(made.service_id)) as connection:
        connection.execute('CREATE DATABASE "odd \'name\\" OWNER tsdbadmin')
        connection.execute("CREATE DATABASE closed OWNER tsdbadmin")
    yield made
    instances.remove(made.service_id, 10)


def test_subscriptions_are_detached_in_every_database(instances: Instances, server: Server) -> None:
    paths = instances.paths(server.service_id)
    for database in ("tsdb", "odd 'name\\", "closed"):
        with connections.connect(paths, database) as connection:
            connection.execute(
                "CREATE SUBSCRIPTION \"a'b\" CONNECTION 'host=publisher.invalid password=secret' PUBLICATION p"
                " WITH (connect = false, slot_name = 'kept')"
            )
    with connections.connect(paths) as connection:
        connection.execute("ALTER DATABASE closed ALLOW_CONNECTIONS false")
    found = instances.secure(server, is_new=False, neutralize=False)
    assert found["subscriptions"] == ["closed.a'b", "odd 'name\\.a'b", "tsdb.a'b"]
    assert found["databases_not_entered"] == ["closed"]
    with connections.connect(paths) as connection:
        rows = connection.execute(
            "SELECT DISTINCT subenabled, subslotname, subconninfo FROM pg_subscription"
        ).fetchall()
        connection.execute("ALTER DATABASE closed ALLOW_CONNECTIONS true")
    assert rows == [(False, None, "host=/nonexistent")]
    for database in ("tsdb", "odd 'name\\", "closed"):
        with connections.connect(paths, database) as connection:
            connection.execute('DROP SUBSCRIPTION "a\'b"')


def test_prepared_transactions_are_listed_and_rolled_back_only_thoroughly(instances: Instances, server: Server) -> None:
    paths = instances.paths(server.service_id)
    for database, name in (("tsdb", "it''s"), ("odd 'name\\", "other")):
        with connections.connect(paths, database) as connection:
            connection.execute("BEGIN")
            connection.execute("CREATE TABLE public.prepared ()")
            connection.execute(f"PREPARE TRANSACTION '{name}'".encode())
    listed = ["tsdb: it's", "odd 'name\\: other"]
    kept = instances.secure(server, is_new=False, neutralize=False)
    assert (kept["prepared_transactions"], kept["prepared_transactions_rolled_back"]) == (listed, 0)
    ended = instances.secure(server, is_new=False, neutralize=True)
    assert (ended["prepared_transactions"], ended["prepared_transactions_rolled_back"]) == (listed, 2)
    assert instances.secure(server, is_new=False, neutralize=True)["prepared_transactions"] == []


def test_foreign_credentials_are_removed_without_asking_the_wrapper(instances: Instances, server: Server) -> None:
    paths = instances.paths(server.service_id)
    with connections.connect(paths, "tsdb") as connection:
        connection.execute("CREATE FOREIGN DATA WRAPPER stubborn")
        connection.execute('CREATE SERVER "far\'away" FOREIGN DATA WRAPPER stubborn')
        connection.execute("CREATE USER MAPPING FOR PUBLIC SERVER \"far'away\" OPTIONS (password 'secret')")
    assert instances.secure(server, is_new=False, neutralize=False).get("user_mappings") is None
    assert instances.secure(server, is_new=False, neutralize=True)["user_mappings"] == 1
    with connections.connect(paths, "tsdb") as connection:
        assert connection.execute("SELECT umoptions FROM pg_user_mappings").fetchall() == [(None,)]


def test_scheduled_jobs_are_deactivated(instances: Instances, server: Server) -> None:
    with _cron(instances, server) as connection:
        connection.execute("INSERT INTO cron.job (jobid) VALUES (1), (2)")
        _adopt_into_extension(connection, "pg_cron", "cron.job")
        assert instances.secure(server, is_new=False, neutralize=False).get("jobs") is None
        found = instances.secure(server, is_new=False, neutralize=True)
        assert found["jobs"] == ["tsdb: pg_cron job 1", "tsdb: pg_cron job 2"]
        assert connection.execute("SELECT bool_or(active) FROM cron.job").fetchone() == (False,)


def test_a_neutralized_fork_sends_no_telemetry_of_timescaledb(instances: Instances, server: Server) -> None:
    """With a table of the shape that TimescaleDB keeps its jobs in; with itself: test_timescaledb.py."""
    telemetry = "ALTER DATABASE tsdb SET timescaledb.telemetry_level = 'basic'"
    with _cron(instances, server) as connection:
        connection.execute("CREATE SCHEMA _timescaledb_config")
        connection.execute(
            "CREATE TABLE _timescaledb_config.bgw_job (id int, proc_name name, scheduled boolean DEFAULT true)"
        )
        connection.execute(
            "INSERT INTO _timescaledb_config.bgw_job VALUES (1, 'policy_telemetry'), (2, 'upkeep'), (1000, 'x')"
        )
        _adopt_into_extension(connection, "timescaledb", "_timescaledb_config.bgw_job")
        connection.execute(telemetry.encode())
        connection.execute("ALTER DATABASE tsdb SET work_mem = '5MB'")
        connection.execute("ALTER ROLE tsdbadmin SET timescaledb.telemetry_level = 'basic'")
        settings = "SELECT setconfig FROM pg_db_role_setting ORDER BY 1"
        instances.secure(server, is_new=False, neutralize=False)
        assert "timescaledb.telemetry_level" in str(connection.execute(settings.encode()).fetchall())
        found = instances.secure(server, is_new=False, neutralize=True)
        assert found["jobs"] == ["tsdb: timescaledb job 1", "tsdb: timescaledb job 1000"]
        assert connection.execute(settings.encode()).fetchall() == [(["work_mem=5MB"],)]
        connection.execute("ALTER DATABASE tsdb RESET ALL")
        connection.execute("DROP SCHEMA _timescaledb_config CASCADE")


def test_a_table_that_only_looks_like_an_extensions_is_not_touched(instances: Instances, server: Server) -> None:
    with _cron(instances, server) as connection:
        connection.execute("ALTER SCHEMA cron OWNER TO tsdbadmin")
        connection.execute("ALTER TABLE cron.job OWNER TO tsdbadmin")
        connection.execute(
            "CREATE FUNCTION cron.trap() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN ALTER ROLE tsdbadmin SUPERUSER; RETURN new; END'"
        )
        connection.execute("CREATE TRIGGER t BEFORE UPDATE ON cron.job FOR EACH ROW EXECUTE FUNCTION cron.trap()")
        connection.execute("ALTER TABLE cron.job ENABLE ALWAYS TRIGGER t")
        connection.execute("INSERT INTO cron.job (jobid) VALUES (1)")
        assert instances.secure(server, is_new=False, neutralize=True)["jobs"] == []
        row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = 'tsdbadmin'").fetchone()
        assert row == (False,)


def _adopt_into_extension(connection: connections.Connection, extension: str, table: str) -> None:
    """Make an extension of which only its name and its table are real."""
    connection.execute(
        "WITH made AS (INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)"
        " SELECT 90000, %s, 10, 11, false, '1' RETURNING oid)"
        " INSERT INTO pg_depend SELECT 'pg_class'::regclass, %s::regclass, 0, 'pg_extension'::regclass, oid, 0, 'e'"
        " FROM made",
        (extension, table),
    )


@contextmanager
def _cron(instances: Instances, server: Server) -> Iterator[connections.Connection]:
    """Make a table where pg_cron would keep its jobs."""
    with connections.connect(instances.paths(server.service_id), "tsdb") as connection:
        connection.execute("CREATE SCHEMA cron")
        connection.execute("CREATE TABLE cron.job (jobid int, active boolean DEFAULT true)")
        try:
            yield connection
        finally:
            connection.execute("DELETE FROM pg_extension WHERE oid = 90000")
            connection.execute("DELETE FROM pg_depend WHERE refobjid = 90000")
            connection.execute("DROP SCHEMA cron CASCADE")
