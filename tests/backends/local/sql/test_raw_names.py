"""Names that are no UTF-8, which a tenant can make in a database with another encoding, are names like others."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import psycopg
import pytest

from ramet.backends.local.insight import NO_TEXT, LocalInsight
from ramet.backends.local.replication import LocalReplication
from ramet.backends.local.server import amcheck
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import carried_passwords, connections, logins, raw_names
from ramet.backends.local.sql.tenant_code import Allowance
from ramet.backends.local.upgrades.examine import examine
from ramet.errors import NotFound
from ramet.model.passwords import new_password, scram_verifier
from ramet.model.wal_level import WalLevel
from ramet.workbench.catalog import list_databases
from tests.backends.local.hosts import boot, connect, new_server
from tests.backends.local.sql.tenants import Tenant

ROLE, DATABASE = "r\udcff", "d\udcff'\\\udcfe"


@pytest.fixture(scope="module")
def tenant(instances: Instances) -> Iterator[Tenant]:
    password = new_password()
    server = new_server(instances, password, wal_level=WalLevel.LOGICAL)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    made = Tenant(instances, server, password)
    for name, encoding in (("ascii", "SQL_ASCII"), ("latin", "LATIN1"), ("mule", "MULE_INTERNAL")):
        made.run(f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with connect(server, password, dbname="ascii", sslmode="prefer", client_encoding="SQL_ASCII") as connection:
        for statement in (
            b"CREATE ROLE \"r\xff\" LOGIN PASSWORD 'secret'",
            b'CREATE TABLE "t\xff" (a int)',
            b'GRANT INSERT ON "t\xff" TO "r\xff"',
            b'CREATE DATABASE "d\xff\'\\\xfe" TEMPLATE template0',
            b'ALTER ROLE "r\xff" SET tsdb_admin.read_only_role = true',
            b"ALTER ROLE \"r\xff\" SET search_path = '\xff'",
            b"ALTER DATABASE tsdb SET search_path = '\xff'",
            b"ALTER DATABASE tsdb SET idle_session_timeout = '1ms'",
        ):
            connection.execute(statement)
    made.run("CREATE TABLE kept (a int)", dbname="latin", client_encoding="UTF8")
    with connect(server, password, dbname="latin", sslmode="prefer") as connection:
        connection.execute('CREATE TABLE "é" (a int)')
    yield made
    instances.remove(server.service_id, 10)


def test_a_role_is_found_and_named_in_every_database(tenant: Tenant) -> None:
    paths = tenant.instances.paths(tenant.server.service_id)
    for database in ("postgres", "ascii", "latin", "mule", DATABASE):
        with connections.connect(paths, database) as connection:
            query = "SELECT rolname FROM pg_roles WHERE rolname ~ '^r[^a-z]'"
            assert connection.execute(query).fetchall() == [(ROLE,)]
            connections.run(connection, "COMMENT ON ROLE {} IS {text}", ROLE, text=f"{{}} 'é' % in {database!a}")
            assert raw_names.database_of(connection) == database
    with pytest.raises(psycopg.errors.NullValueNotAllowed), connections.connect(paths) as connection:
        connections.run(connection, "DROP ROLE {}", "n\udcff")


def test_it_is_held_to_reading(tenant: Tenant) -> None:
    tenant.enforce()
    paths = tenant.instances.paths(tenant.server.service_id)
    with connections.connect(paths, "ascii") as connection:
        query = "SELECT has_table_privilege(r.oid, c.oid, 'INSERT') FROM pg_roles r, pg_class c"
        query += " WHERE rolname ~ '^r[^a-z]' AND relname ~ '^t[^a-z]' AND relkind = 'r'"
        assert connection.execute(query.encode()).fetchall() == [(False,)]


def test_its_password_is_carried_over_to_other_data(tenant: Tenant) -> None:
    paths = tenant.instances.paths(tenant.server.service_id)
    with connections.connect(paths) as connection:
        (oid, verifier) = connections.row(
            connection, "SELECT oid, rolpassword FROM pg_authid WHERE rolname ~ '^r[^a-z]'"
        )
        carried_passwords.note(paths, paths)
        connection.execute("UPDATE pg_authid SET rolpassword = 'earlier' WHERE oid = %s", (oid,))
        carried_passwords.apply(paths, paths)
        assert connections.value(connection, "SELECT rolpassword FROM pg_authid WHERE oid = %s", oid) == verifier


def test_a_note_of_passwords_of_an_earlier_release_is_read(tenant: Tenant) -> None:
    paths = tenant.instances.paths(tenant.server.service_id)
    (paths.root / "passwords.json").write_text('{"é": "noted", "nobody": null}')
    with connections.connect(paths) as connection:
        connections.run(connection, "CREATE ROLE {} LOGIN", "é")
        carried_passwords.apply(paths, paths)
        assert connections.value(connection, "SELECT rolpassword FROM pg_authid WHERE rolname = 'é'") == "noted"
        connections.run(connection, "DROP ROLE {}", "é")


def test_logins_are_dropped(tenant: Tenant) -> None:
    paths = tenant.instances.paths(tenant.server.service_id)
    verifier, until = scram_verifier(new_password()), datetime.now(UTC) + timedelta(hours=1)
    logins.create(paths, "ramet_login_one", verifier, until, read_only=False)
    logins.drop(paths, ["ramet_login_one"])
    with connections.connect(paths) as connection:
        assert connection.execute("SELECT FROM pg_roles WHERE rolname = 'ramet_login_one'").fetchall() == []


def test_the_server_is_secured_and_the_report_can_be_stored(tenant: Tenant) -> None:
    with connect(tenant.server, tenant.password, dbname="ascii", sslmode="prefer") as connection:
        connection.execute("SET client_encoding TO 'SQL_ASCII'")
        connection.execute(b"BEGIN")
        connection.execute(b"PREPARE TRANSACTION 'p\xff'")
    found = tenant.instances.secure(tenant.server, is_new=False, neutralize=True)
    assert found["prepared_transactions"] == [r"ascii: p\xff"]
    assert found["settings_removed"] == ["idle_session_timeout=1ms"]
    assert msgspec.json.encode(found)
    with connections.connect(tenant.instances.paths(tenant.server.service_id)) as connection:
        query = "SELECT setconfig FROM pg_db_role_setting WHERE setrole = 0"
        assert connection.execute(query).fetchall() == [(['search_path="\udcff"'],)]


def test_each_database_is_checked_for_corruption(tenant: Tenant) -> None:
    assert amcheck.read_all(tenant.instances.paths(tenant.server.service_id), Allowance()) == ""


def test_tables_of_each_database_are_measured(tenant: Tenant) -> None:
    insight = LocalInsight(tenant.instances)
    with pytest.raises(NotFound, match="databases are") as caught:
        insight.tables(tenant.server, "nothing", 9)
    assert r"d\xff'\\xfe" in str(caught.value)
    for database, name in (("ascii", r"t\xff"), ("latin", "é")):
        assert name in {one.name for one in insight.tables(tenant.server, database, 9).tables}
    assert insight.tables(tenant.server, "mule", 9).database == "mule"
    assert insight.tables(tenant.server, raw_names.shown(DATABASE), 9).database == raw_names.shown(DATABASE)


def test_the_console_lists_databases(tenant: Tenant) -> None:
    with connections.connect(tenant.instances.paths(tenant.server.service_id)) as session:
        assert list_databases(session) == ["tsdb", "ascii", raw_names.shown(DATABASE), "latin", "mule", "postgres"]


def test_replication_slots_name_their_database(tenant: Tenant) -> None:
    with connections.connect(tenant.instances.paths(tenant.server.service_id), DATABASE) as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('kept', 'pgoutput')")
        (slot,) = LocalReplication(tenant.instances).slots(tenant.server).slots
        connection.execute("SELECT pg_drop_replication_slot('kept')")
    assert msgspec.json.decode(msgspec.json.encode(slot.database)) == raw_names.shown(DATABASE)


def test_statements_of_a_database_are_counted_beside_texts_in_another_encoding(tenant: Tenant) -> None:
    made = ("CREATE ROLE app", "GRANT app TO tsdbadmin", "REVOKE USAGE ON SCHEMA public FROM PUBLIC")
    tenant.run(*made, "SET ROLE app", "SELECT 1", options="-c idle_session_timeout=0")
    found = LocalInsight(tenant.instances).statements(tenant.server, 200)
    assert {(one.text, one.database) for one in found} == {(NO_TEXT, "tsdb")}
    assert {one.role for one in found} == {"tsdbadmin", "app"}


def test_the_check_before_an_upgrade_can_be_shown(tenant: Tenant) -> None:
    paths = tenant.instances.paths(tenant.server.service_id)
    installation = tenant.instances.installations.of(tenant.server.pg_major)
    with connections.connect(paths, "ascii") as connection:
        options = b"CONNECTION 'dbname=none' PUBLICATION p WITH (connect = false, slot_name = NONE)"
        connection.execute(b'CREATE SUBSCRIPTION "s\xff" ' + options)
        facts = examine(paths, installation, installation)
        connection.execute(b'DROP SUBSCRIPTION "s\xff"')
    assert r"subscription s\xff" in {one.subject for one in facts.refusals}
    assert facts.statements == ()
    assert "encoding" in str(facts.statements_note)
    assert msgspec.json.encode(facts)
