"""What earlier releases put on tenants' tables is gone after a renewal, and from forks of older data."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.earlier_guards import drop_event_trigger
from ramet.model.passwords import Secret, new_password, scram_verifier
from tests.backends.local import forks
from tests.backends.local.earlier_guards import guard_table, install_guards
from tests.backends.local.hosts import boot, connect, new_server
from tests.servers import installations

DATABASES = ("template1", "tsdb", "second", "closed")
# Nothing whose name tells of the platform may be left, but what read-only.md names.
REMAINS = """
SELECT 'trigger on ' || tgrelid::regclass FROM pg_trigger WHERE tgname ~ '^ramet_'
UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE proname ~ '^ramet_' AND proname <> 'ramet_begin_session'
UNION ALL SELECT 'event trigger ' || evtname FROM pg_event_trigger WHERE evtname <> 'ramet_begin_session'
UNION ALL SELECT 'extension ' || extname FROM pg_extension WHERE extname NOT IN ('plpgsql', 'pg_stat_statements')
UNION ALL SELECT 'dependency of ' || classid::regclass || ' ' || objid FROM pg_depend d
WHERE classid = 'pg_trigger'::regclass AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.oid = d.objid)
   OR classid = 'pg_event_trigger'::regclass AND NOT EXISTS (SELECT FROM pg_event_trigger t WHERE t.oid = d.objid)
   OR refclassid = 'pg_proc'::regclass AND refobjid > 16383
      AND NOT EXISTS (SELECT FROM pg_proc p WHERE p.oid = d.refobjid)
UNION ALL SELECT 'comment of a trigger' FROM pg_description d
WHERE classoid = 'pg_trigger'::regclass AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.oid = d.objoid)
"""


@dataclass(frozen=True)
class Older:
    """A service of an earlier release, open to its tenants."""

    instances: Instances
    server: Server
    password: Secret

    def run(self, *statements: str, dbname: str = "tsdb") -> None:
        with connect(self.server, self.password, sslmode="prefer", dbname=dbname) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def remains(self, database: str) -> list[str]:
        with connections.connect(self.instances.paths(self.server.service_id), database) as platform:
            return [str(row[0]) for row in platform.execute(REMAINS.encode()).fetchall()]


@pytest.fixture(params=[one.major for one in installations().found])
def older(request: pytest.FixtureRequest, instances: Instances) -> Iterator[Older]:
    password = new_password()
    server = new_server(instances, password, pg_major=request.param)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    paths = instances.paths(server.service_id)
    for database in ("template1", "tsdb"):
        with connections.connect(paths, database) as platform:
            if server.pg_major >= 17:
                drop_event_trigger(platform, "ramet_begin_session")
                platform.execute("DROP FUNCTION pg_catalog.ramet_begin_session()")
            for member in ("create_bare_readonly_role(text, text)", "grant_tsdbadmin_to_role(text)"):
                platform.execute(f"ALTER EXTENSION plpgsql DROP FUNCTION timescale_functions.{member}".encode())
            platform.execute("ALTER EXTENSION plpgsql DROP SCHEMA timescale_functions")
            platform.execute("DROP SCHEMA timescale_functions CASCADE")
            install_guards(platform)
    instances.open(server)
    made = Older(instances, server, password)
    made.run(
        "CREATE TABLE orders (id int PRIMARY KEY, title text)",
        "CREATE TABLE lines (id int, parent int)",
        "CREATE TABLE parts (id int) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (100)",
        "CREATE TRIGGER own BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "COMMENT ON TRIGGER ramet_read_only ON lines IS 'what is this?'",
        "CREATE DATABASE second",
        "CREATE DATABASE closed",
    )
    for database in ("second", "closed"):
        made.run("CREATE TABLE orders (id int)", dbname=database)
    made.run("ALTER DATABASE closed WITH ALLOW_CONNECTIONS false CONNECTION LIMIT 7")
    yield made
    instances.remove(server.service_id, 10)


def test_nothing_is_left_of_the_guards_after_a_renewal(older: Older) -> None:
    with connections.connect(older.instances.paths(older.server.service_id), "second") as platform:
        platform.execute("CREATE TABLE public.late (id int)")
        guard_table(platform, "public", "late")
    for database in DATABASES[:3]:
        assert older.remains(database)

    eventually(lambda: older.instances.renew(older.server.service_id))

    with connections.connect(older.instances.paths(older.server.service_id)) as platform:
        closed = platform.execute("SELECT datallowconn, datconnlimit FROM pg_database WHERE datname = 'closed'")
        assert closed.fetchone() == (False, 7)
    older.run("ALTER DATABASE closed WITH ALLOW_CONNECTIONS true")
    assert {database: older.remains(database) for database in DATABASES} == {key: [] for key in DATABASES}
    older.run(
        "ALTER TABLE orders DISABLE TRIGGER ALL",
        "CREATE TABLE child (x int REFERENCES orders)",
        "INSERT INTO lines VALUES (1)",
        "INSERT INTO parts VALUES (1)",
        "INSERT INTO orders VALUES (1)",
        "UPDATE orders SET title = 'x'",
    )


def test_nobody_may_create_functions_in_pg_catalog_after_a_renewal(older: Older) -> None:
    paths = older.instances.paths(older.server.service_id)
    rights = "SELECT has_schema_privilege('tsdbadmin', 'pg_catalog', 'CREATE')"
    for database in DATABASES[1:3]:
        with connections.connect(paths, database) as platform:
            platform.execute("GRANT CREATE ON SCHEMA pg_catalog TO tsdbadmin")
    eventually(lambda: older.instances.renew(older.server.service_id))
    for database in DATABASES[1:3]:
        with connections.connect(paths, database) as platform:
            assert connections.value(platform, rights) is False


def test_sessions_that_know_the_guards_work_without_them(older: Older) -> None:
    with connect(older.server, older.password, sslmode="prefer") as session:
        session.execute("PREPARE write AS INSERT INTO orders VALUES ($1)")
        session.execute("EXECUTE write(1)")
        eventually(lambda: older.instances.renew(older.server.service_id))
        session.execute("EXECUTE write(2)")
        session.execute("INSERT INTO lines VALUES (1)")
        assert session.execute("SELECT count(*) FROM orders").fetchone() == (2,)


def test_tables_that_tenants_keep_locked_lose_their_guards_too(older: Older) -> None:
    with connect(older.server, older.password, sslmode="prefer") as locker:
        locker.execute("BEGIN")
        locker.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        eventually(lambda: older.instances.renew(older.server.service_id))
        assert older.remains("tsdb") == []


def test_functions_stay_until_the_statements_end_that_may_call_them(older: Older) -> None:
    with connect(older.server, older.password, sslmode="prefer") as locker:
        locker.execute("SELECT pg_advisory_lock(1)")
        late = threading.Thread(
            target=older.run,
            args=("WITH late AS (INSERT INTO orders VALUES (1)) SELECT pg_advisory_lock(1)",),
        )
        late.start()
        waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        eventually(lambda: locker.execute(waits).fetchone() is not None)
        assert older.instances.renew(older.server.service_id) is False
        locker.execute("SELECT pg_advisory_unlock(1)")
        late.join(30)
        assert locker.execute("SELECT count(*) FROM orders").fetchone() == (1,)
    eventually(lambda: older.instances.renew(older.server.service_id))
    assert older.remains("tsdb") == []


def test_the_credentials_of_a_fork_come_with_databases_without_guards(older: Older) -> None:
    password = new_password()
    older.run("ALTER DATABASE closed WITH ALLOW_CONNECTIONS true")
    older.instances.secure(replace(older.server, verifier=scram_verifier(password)), is_new=False, neutralize=True)
    assert {database: older.remains(database) for database in DATABASES} == {key: [] for key in DATABASES}


def test_a_fork_of_an_older_snapshot_has_no_guards(backend: LocalBackend) -> None:
    password = new_password()
    parent = new_server(backend.instances, password)
    backend.servers.initialize(parent)
    forks.run(backend, parent)
    backend.servers.secure(parent, is_new=True, neutralize=False)
    with connections.connect(backend.instances.paths(parent.service_id), "tsdb") as platform:
        install_guards(platform)
        platform.execute("CREATE TABLE public.orders (id int)")
        guard_table(platform, "public", "orders")
    snapshot_id, _ = forks.snapshot(backend, parent)
    assert backend.servers.refresh(parent)
    made = forks.fork(backend, parent, snapshot_id)
    backend.servers.secure(replace(made.server, verifier=scram_verifier(password)), is_new=False, neutralize=False)
    assert Older(backend.instances, made.server, password).remains("tsdb") == []


def test_a_tenants_own_schema_of_that_name_is_left_alone(older: Older, caplog: pytest.LogCaptureFixture) -> None:
    older.run("CREATE SCHEMA timescale_functions", "CREATE TABLE timescale_functions.t (id int)")
    older.instances.renew(older.server.service_id)
    assert "already has a schema timescale_functions owned by tsdbadmin" in caplog.text
    older.run("DROP SCHEMA timescale_functions CASCADE")
    with pytest.raises(psycopg.errors.InvalidSchemaName):
        older.run("SELECT timescale_functions.grant_tsdbadmin_to_role('x')")
