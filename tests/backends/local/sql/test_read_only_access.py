"""Read-only roles hold by privileges: those of the functions, and those that the admin marks."""

import logging
import math
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.local.server import read_only_module
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, read_only_roles
from ramet.backends.local.sql.read_only_roles import ReadOnlyRoles
from ramet.model.passwords import new_password, scram_verifier
from tests.backends.local.hosts import boot, connect, new_server
from tests.backends.local.sql.tenants import Tenant
from tests.servers import installations

CREATE = "SELECT timescale_functions.create_bare_readonly_role('{}', '{}')"
LET_READ = "SELECT timescale_functions.grant_tsdbadmin_to_role('{}')"
MARK = "ALTER ROLE {} SET tsdb_admin.read_only_role = true"


@pytest.fixture(scope="module", params=[one.major for one in installations().found])
def tenant(request: pytest.FixtureRequest, instances: Instances) -> Iterator[Tenant]:
    """The admin of a service without the module: what holds, holds by privileges."""
    password = new_password()
    server = new_server(instances, password, pg_major=request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_only_module, "library_of", lambda major: instances.layout.services / "none.so")
        boot(instances, server)
        instances.secure(server, is_new=True, neutralize=False)
        instances.open(server)
    made = Tenant(instances, server, password)
    made.run("CREATE TABLE orders (id serial PRIMARY KEY, title text)", "INSERT INTO orders (title) VALUES ('one')")
    yield made
    instances.remove(server.service_id, 10)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one call look at all roles that the tests of this file have marked, however slow the machine is."""
    monkeypatch.setattr(read_only_roles, "_BUDGET_SECONDS", math.inf)


def test_a_role_of_the_functions_reads_what_is_there_and_what_comes_and_can_be_dropped(tenant: Tenant) -> None:
    with connect(tenant.server, tenant.password, sslmode="prefer") as connection, connection.transaction():
        connection.execute(CREATE.format('an "odd" one', "secret").encode())
        connection.execute(LET_READ.format('an "odd" one').encode())
    tenant.run(
        "CREATE SCHEMA IF NOT EXISTS later",
        "CREATE TABLE later.t (id serial)",
        "CREATE ROLE owner_of_later",
        "GRANT owner_of_later TO tsdbadmin",
        "GRANT CREATE, USAGE ON SCHEMA later TO owner_of_later",
        "SET ROLE owner_of_later",
        "CREATE TABLE later.theirs (id int)",
    )
    for readable in ("orders", "orders_id_seq", "later.t", "later.theirs", "pg_stat_activity"):
        tenant.as_role('an "odd" one', f"SELECT * FROM {readable}")
    tenant.run("CREATE DATABASE second")
    tenant.run("CREATE TABLE t (id int)", dbname="second")
    tenant.as_role('an "odd" one', "SELECT * FROM t", dbname="second")
    assert not tenant.can_write('an "odd" one', "INSERT INTO t VALUES (1)", dbname="second")
    tenant.run('DROP ROLE "an ""odd"" one"', "DROP SCHEMA later CASCADE", "DROP DATABASE second")
    tenant.run("DROP ROLE owner_of_later")


def test_a_bare_role_reads_nothing(tenant: Tenant) -> None:
    tenant.run(CREATE.format("bare", "secret"))
    assert not tenant.can_write("bare", "SELECT * FROM orders")
    assert tenant.as_role("bare", "SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (CREATE.format("tsdbadmin", "secret"), 'role "tsdbadmin" already exists'),
        (CREATE.format("pg_mine", "secret"), 'role name "pg_mine" is reserved'),
        ("SELECT timescale_functions.create_bare_readonly_role('x', NULL)", "must not be null"),
        (LET_READ.format("nobody"), 'role "nobody" does not exist'),
        (LET_READ.format("tsdbadmin"), 'role "tsdbadmin" is not a read-only role'),
        (LET_READ.format("ramet"), 'role "ramet" is not a read-only role'),
    ],
)
def test_the_functions_refuse_other_roles_and_show_no_password(tenant: Tenant, statement: str, said: str) -> None:
    with pytest.raises(psycopg.Error, match=said) as refused:
        tenant.run(statement)
    assert "secret" not in f"{refused.value} {refused.value.diag.context}"


def test_the_functions_belong_to_the_admin_alone(tenant: Tenant) -> None:
    tenant.run("CREATE ROLE stranger LOGIN PASSWORD 'secret'")
    assert not tenant.can_write("stranger", CREATE.format("x", "secret"))
    for statement in (
        "DROP FUNCTION timescale_functions.grant_tsdbadmin_to_role(text)",
        "DROP SCHEMA timescale_functions CASCADE",
        "CREATE FUNCTION timescale_functions.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "DROP EXTENSION plpgsql CASCADE",
    ):
        with pytest.raises(psycopg.Error):
            tenant.run(statement)


def test_nothing_of_it_is_in_a_dump_or_on_a_table(tenant: Tenant) -> None:
    program = tenant.instances.installations.of(tenant.server.pg_major).program("pg_dump")
    uri = f"host=localhost port={tenant.server.port} user=tsdbadmin dbname=tsdb sslmode=prefer"
    environ = {"PGPASSWORD": tenant.password.reveal(), "PATH": "/usr/bin:/bin"}
    dump = subprocess.run([program, uri], env=environ, capture_output=True, text=True, check=True, timeout=250).stdout
    assert "CREATE TABLE public.orders" in dump
    assert "ramet" not in dump
    assert "timescale_functions" not in dump
    assert tenant.run("SELECT tgname FROM pg_trigger") == []
    tenant.run("ALTER TABLE orders DISABLE TRIGGER ALL", "ALTER TABLE orders ENABLE TRIGGER ALL")


def test_a_marked_role_loses_its_rights_to_write_and_reads_on(tenant: Tenant) -> None:
    tenant.run(
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.goods (id serial, name text)",
        "CREATE ROLE clerk LOGIN PASSWORD 'secret' CREATEDB",
        "CREATE ROLE lender",
        "GRANT lender TO tsdbadmin",
        "GRANT USAGE, CREATE ON SCHEMA shop TO clerk",
        "GRANT USAGE ON SCHEMA shop TO lender",
        "GRANT ALL ON shop.goods, shop.goods_id_seq TO clerk",
        "GRANT UPDATE (title), SELECT ON orders TO clerk",
        "GRANT INSERT ON orders TO lender WITH GRANT OPTION",
        "SET ROLE lender",
        "GRANT INSERT ON orders TO clerk",
        "RESET ROLE",
        "GRANT CREATE ON DATABASE tsdb TO clerk",
        "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO clerk",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT ALL ON SEQUENCES TO clerk",
    )
    writes = (
        "INSERT INTO shop.goods (name) VALUES ('x')",
        "SELECT nextval('shop.goods_id_seq')",
        "UPDATE orders SET title = title",
        "INSERT INTO orders VALUES (0, 'x')",
        "CREATE TABLE shop.more (id int)",
        "CREATE SCHEMA clerks",
        "CREATE DATABASE clerks",
    )
    assert all(tenant.can_write("clerk", write) for write in writes[:4])
    tenant.run(MARK.format("clerk"))
    tenant.enforce()
    tenant.run("CREATE TABLE shop.later (id serial)")
    assert [write for write in writes if tenant.can_write("clerk", write)] == []
    assert not tenant.can_write("clerk", "INSERT INTO shop.later VALUES (1)")
    assert not tenant.can_write("clerk", "SELECT nextval('shop.later_id_seq')")
    for readable in ("shop.goods", "shop.goods_id_seq", "orders", "shop.later"):
        tenant.as_role("clerk", f"SELECT * FROM {readable}")


def test_what_a_marked_role_owned_is_under_the_admin(tenant: Tenant) -> None:
    tenant.run(
        "CREATE ROLE baker LOGIN PASSWORD 'secret'",
        "GRANT baker TO tsdbadmin",
        "GRANT CREATE ON DATABASE tsdb TO baker",
        "CREATE DATABASE bakery OWNER baker",
    )
    tenant.as_role("baker", "CREATE SCHEMA bread", "CREATE TABLE bread.loaves (id serial)")
    tenant.as_role("baker", "CREATE TABLE ovens (id int)", dbname="bakery")
    tenant.run(MARK.format("baker"))
    tenant.enforce()
    for write, database in (
        ("INSERT INTO bread.loaves VALUES (1)", "tsdb"),
        ("GRANT INSERT ON bread.loaves TO baker", "tsdb"),
        ("DROP SCHEMA bread CASCADE", "tsdb"),
        ("INSERT INTO ovens VALUES (1)", "bakery"),
        ("CREATE SCHEMA more", "bakery"),
    ):
        if write.startswith("GRANT"):
            tenant.as_role("baker", write, dbname=database)
        else:
            assert not tenant.can_write("baker", write, dbname=database), write
    assert not tenant.can_write("baker", "INSERT INTO bread.loaves VALUES (1)")
    tenant.as_role("baker", "SELECT * FROM bread.loaves, bread.loaves_id_seq")
    tenant.as_role("baker", "SELECT * FROM ovens", dbname="bakery")
    assert tenant.run("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'bakery'") == [("tsdbadmin",)]
    tenant.run("DROP DATABASE bakery", "DROP SCHEMA bread CASCADE")


def test_the_code_of_a_marked_role_gains_no_right(tenant: Tenant) -> None:
    tenant.run(
        "CREATE ROLE author LOGIN PASSWORD 'secret'",
        "CREATE ROLE accomplice LOGIN PASSWORD 'secret'",
        "CREATE SCHEMA works",
        "GRANT CREATE, USAGE ON SCHEMA works TO author",
        "GRANT USAGE ON SCHEMA works TO accomplice",
        "CREATE TABLE closed (id int)",
        "CREATE TABLE lent (id int)",
        "GRANT SELECT ON lent TO author",
    )
    tenant.as_role(
        "author",
        "CREATE TABLE works.own (id int)",
        "CREATE FUNCTION works.run(text) RETURNS void SECURITY DEFINER LANGUAGE plpgsql AS 'BEGIN EXECUTE $1; END'",
        "CREATE VIEW works.peek AS SELECT * FROM closed",
        "CREATE VIEW works.of_lent AS SELECT * FROM lent",
        "GRANT ALL ON works.peek, works.of_lent TO accomplice",
    )
    tenant.run(MARK.format("author"))
    tenant.enforce()
    for role in ("author", "accomplice"):
        for gained in (
            "SELECT works.run('INSERT INTO closed VALUES (1)')",
            "SELECT works.run('INSERT INTO works.own VALUES (1)')",
            "SELECT works.run('CREATE ROLE boss')",
            "SELECT * FROM works.peek",
        ):
            assert not tenant.can_write(role, gained), (role, gained)
    assert not tenant.can_write("accomplice", "INSERT INTO works.peek VALUES (1)")
    assert tenant.as_role("accomplice", "SELECT * FROM works.of_lent") == []
    tenant.run("INSERT INTO works.own VALUES (1)", "DROP SCHEMA works CASCADE")


def test_a_marked_member_of_the_admin_leaves_no_function_with_its_rights(tenant: Tenant) -> None:
    tenant.run("CREATE ROLE deputy LOGIN PASSWORD 'secret'")
    with connections.connect(tenant.instances.paths(tenant.server.service_id)) as platform:
        platform.execute("REVOKE deputy FROM tsdbadmin CASCADE")  # who made it is its member from PostgreSQL 16 on
        platform.execute("GRANT tsdbadmin TO deputy")
    tenant.as_role(
        "deputy",
        "CREATE FUNCTION public.run(text) RETURNS void SECURITY DEFINER LANGUAGE plpgsql AS 'BEGIN EXECUTE $1; END'",
    )
    with connections.connect(tenant.instances.paths(tenant.server.service_id)) as platform:
        platform.execute(MARK.format("deputy").encode())
    tenant.enforce()
    assert not tenant.can_write("deputy", "SELECT run('INSERT INTO orders VALUES (-5)')")


def test_a_marked_role_leaves_the_groups_that_write_and_stays_in_those_that_read(tenant: Tenant) -> None:
    tenant.run(
        "CREATE ROLE agent LOGIN PASSWORD 'secret'",
        "CREATE ROLE reading",
        "GRANT SELECT ON orders TO reading",
        "CREATE ROLE writing",
        "GRANT INSERT ON orders TO writing",
        "CREATE ROLE around",
        "GRANT writing TO around",
        "GRANT reading, around, writing TO agent",
        MARK.format("agent"),
    )
    with connections.connect(tenant.instances.paths(tenant.server.service_id)) as platform:
        if platform.execute("SELECT FROM pg_roles WHERE rolname = 'pg_write_all_data'").rowcount:
            platform.execute("GRANT pg_write_all_data TO agent")
    tenant.enforce()
    groups = tenant.run("SELECT roleid::regrole::text FROM pg_auth_members WHERE member = 'agent'::regrole ORDER BY 1")
    assert groups == [("reading",)]
    tenant.as_role("agent", "SELECT * FROM orders")
    for escape in ("SET ROLE writing", "SET ROLE tsdbadmin", "INSERT INTO orders VALUES (-1)"):
        assert not tenant.can_write("agent", escape)


def test_a_marked_member_of_the_admin_reads_all_and_writes_nothing(tenant: Tenant) -> None:
    tenant.run("CREATE ROLE helper LOGIN PASSWORD 'secret'")
    with connections.connect(tenant.instances.paths(tenant.server.service_id)) as platform:
        platform.execute("REVOKE helper FROM tsdbadmin CASCADE")  # who made it is its member from PostgreSQL 16 on
        platform.execute("GRANT tsdbadmin TO helper")
        platform.execute(MARK.format("helper").encode())
    tenant.enforce()
    tenant.as_role("helper", "SELECT * FROM orders")
    for escape in ("SET ROLE tsdbadmin", "INSERT INTO orders VALUES (-2)", "CREATE ROLE more"):
        assert not tenant.can_write("helper", escape)


def test_a_session_that_was_a_writing_role_before_the_mark_writes_no_more(tenant: Tenant) -> None:
    tenant.run(
        "CREATE ROLE early LOGIN PASSWORD 'secret'",
        "CREATE ROLE scribe",
        "GRANT INSERT ON orders TO scribe",
        "GRANT scribe TO early",
    )
    with connect(tenant.server, "secret", user="early", sslmode="prefer") as session:
        session.execute("SET ROLE scribe")
        session.execute("INSERT INTO orders VALUES (-6)")
        tenant.run(MARK.format("early"))
        tenant.enforce()
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.OperationalError)):
            session.execute("INSERT INTO orders VALUES (-7)")
    assert tenant.as_role("early", "SELECT 1") == [(1,)]


def test_rights_that_come_after_the_mark_are_taken_too(tenant: Tenant) -> None:
    tenant.run("CREATE ROLE late LOGIN PASSWORD 'secret'", MARK.format("late"))
    tenant.enforce()
    tenant.run("GRANT SELECT, INSERT ON orders TO late")
    tenant.enforce()
    assert not tenant.can_write("late", "INSERT INTO orders VALUES (-3)")
    tenant.run("GRANT INSERT ON orders TO late")
    replace(tenant, read_only_roles=ReadOnlyRoles()).enforce()  # as half a minute later
    assert not tenant.can_write("late", "INSERT INTO orders VALUES (-3)")


def test_a_server_that_is_stopped_during_the_look_is_no_fault(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tenant.run("CREATE ROLE soon LOGIN PASSWORD 'secret'", MARK.format("soon"))
    with monkeypatch.context() as stopped:
        end = "SELECT pg_terminate_backend(pg_backend_pid())"
        stopped.setattr(read_only_roles, "_take_rights", lambda _, connection, __: connection.execute(end))
        tenant.enforce()
    assert [one.message for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_a_server_at_rest_is_not_written_to(tenant: Tenant) -> None:
    tenant.run("CREATE ROLE still LOGIN PASSWORD 'secret'", MARK.format("still"))
    tenant.enforce()

    def transactions_of_a_check() -> int:
        with connections.connect(tenant.instances.paths(tenant.server.service_id)) as platform:
            before = platform.execute("SELECT pg_current_xact_id()").fetchone()
            replace(tenant, read_only_roles=ReadOnlyRoles()).enforce()
            after = platform.execute("SELECT pg_current_xact_id()").fetchone()
        assert before is not None
        assert after is not None
        return int(str(after[0])) - int(str(before[0]))

    eventually(lambda: transactions_of_a_check() == 1)  # its own look; autovacuum may take others at the same time


def test_the_admin_keeps_its_rights_and_can_remove_the_mark_on_its_role(tenant: Tenant) -> None:
    tenant.run(MARK.format("tsdbadmin"))
    tenant.enforce()
    password = new_password()
    tenant.instances.set_password(replace(tenant.server, verifier=scram_verifier(password)), scram_verifier(password))
    found = replace(tenant, password=password).run(
        "INSERT INTO orders VALUES (-4)",
        "SELECT coalesce(rolconfig, '{}') FROM pg_roles WHERE rolname = 'tsdbadmin'",
    )
    assert found == [([],)]
    tenant.instances.set_password(tenant.server, tenant.server.verifier)


def test_a_mark_in_capitals_locks_no_role_out(instances: Instances) -> None:
    password = new_password()
    server = new_server(instances, password, pg_major=min(one.major for one in installations().found))
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    tenant = Tenant(instances, server, password)
    tenant.run("""ALTER ROLE tsdbadmin SET "TSDB_ADMIN.READ_ONLY_ROLE" = 'false'""")
    assert tenant.run("SHOW transaction_read_only") == [("off",)]
    instances.remove(server.service_id, 10)
