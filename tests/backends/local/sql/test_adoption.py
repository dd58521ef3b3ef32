"""After a copy of a server elsewhere was taken over, no tenant has what works with a superuser's rights."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import adoption, connections, foreign, operator_roles, read_only_access
from ramet.errors import Failed
from tests.backends.local.hosts import boot, new_server, restart
from tests.sources import MAJORS

_OF_X = """
CREATE TABLE trapped (a int);
SET ROLE x;
CREATE TABLE kept (a int);
CREATE EXTENSION pg_stat_statements SCHEMA public;
CREATE EXTENSION file_fdw SCHEMA public;
CREATE FOREIGN DATA WRAPPER wrapper;
CREATE FUNCTION trap() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.trapped VALUES (1); END';
CREATE EVENT TRIGGER "tr""ap" ON ddl_command_end EXECUTE FUNCTION trap();
ALTER EVENT TRIGGER "tr""ap" ENABLE ALWAYS;
CREATE FUNCTION own() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE EVENT TRIGGER own ON ddl_command_end EXECUTE FUNCTION own();
ALTER EXTENSION file_fdw ADD FUNCTION own();
ALTER EXTENSION file_fdw ADD EVENT TRIGGER own;
CREATE TABLE numbered (a serial);
ALTER EXTENSION file_fdw ADD TABLE numbered;
ALTER EXTENSION file_fdw ADD SEQUENCE numbered_a_seq;
CREATE FUNCTION measured(point) RETURNS float8 LANGUAGE sql SECURITY DEFINER AS 'SELECT $1[0]';
CREATE CAST (point AS float8) WITH FUNCTION measured(point);
CREATE FUNCTION differs(point, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
ALTER FUNCTION differs OWNER TO app;
CREATE OPERATOR pg_catalog.<> (LEFTARG = point, RIGHTARG = text, FUNCTION = differs);
RESET ROLE;
CREATE FUNCTION worded(oid) RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT textin(oidout($1))';
CREATE CAST (oid AS text) WITH FUNCTION worded(oid);
CREATE FUNCTION first() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.trapped VALUES (1); END';
CREATE EVENT TRIGGER first ON ddl_command_end EXECUTE FUNCTION first();
ALTER EVENT TRIGGER first ENABLE ALWAYS;
GRANT EXECUTE ON FUNCTION lo_export(oid, text) TO app;
GRANT CREATE ON SCHEMA pg_catalog TO app WITH GRANT OPTION;
REVOKE EXECUTE ON FUNCTION pg_sleep(float8) FROM PUBLIC;
CREATE SERVER far FOREIGN DATA WRAPPER wrapper;
DELETE FROM trapped
"""
_IN_POSTGRES = """
CREATE FOREIGN DATA WRAPPER wrapper;
CREATE SERVER far FOREIGN DATA WRAPPER wrapper;
CREATE USER MAPPING FOR app SERVER far OPTIONS (password 'secret')
"""
_IN_CLOSED = """
SET ROLE x;
CREATE FUNCTION trap() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE EVENT TRIGGER closed ON ddl_command_end EXECUTE FUNCTION trap()
"""


@dataclass(frozen=True)
class Adopted:
    """A copy that was taken over, and the report of that."""

    instances: Instances
    server: Server
    report: dict[str, Any]

    @property
    def paths(self) -> ServicePaths:
        return self.instances.paths(self.server.service_id)

    def query(self, statement: str, database: str = "tsdb") -> list[tuple[Any, ...]]:
        with connections.connect(self.paths, database) as connection:
            return connection.execute(statement.encode()).fetchall()

    def refuses(self, statement: str) -> bool:
        """Tell whether the admin may not execute a statement."""
        with connections.connect(self.paths, "tsdb") as connection:
            connection.execute("SET SESSION AUTHORIZATION tsdbadmin")
            try:
                connection.execute(statement.encode())
            except psycopg.errors.InsufficientPrivilege:
                return True
        return False


def run(paths: ServicePaths, database: str, script: str) -> None:
    with connections.connect(paths, database, search_path="public") as connection:
        connection.execute(script.encode())


@pytest.fixture(scope="module", params=[min(MAJORS), max(MAJORS)])
def adopted(request: pytest.FixtureRequest, instances: Instances) -> Iterator[Adopted]:
    server = new_server(instances, pg_major=request.param)
    paths = instances.paths(server.service_id)
    boot(instances, server)
    run(
        paths, "postgres", "CREATE ROLE x SUPERUSER LOGIN; CREATE ROLE app; GRANT SET ON PARAMETER log_statement TO app"
    )
    for role in ("pg_write_all_data", "pg_read_server_files"):
        run(paths, "postgres", f"GRANT {role} TO app WITH ADMIN OPTION; SET ROLE app; GRANT {role} TO pg_monitor")
    for name in ("shop", "closed"):
        run(paths, "postgres", f"CREATE DATABASE {name} OWNER x")
    run(paths, "shop", _OF_X)
    run(paths, "closed", _IN_CLOSED)
    run(paths, "postgres", "CREATE DATABASE firsts")
    run(paths, "firsts", "CREATE TABLE kept (a int)")
    for name in ("postgres", "template0", "template1"):
        run(paths, "postgres", f"ALTER DATABASE {name} OWNER TO x")
    run(paths, "postgres", _IN_POSTGRES)
    for name in ("closed", "firsts"):
        run(paths, "postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    run(paths, "postgres", "CREATE DATABASE broken")  # as DROP DATABASE leaves it when it is interrupted
    run(paths, "postgres", "UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'broken'")
    foreign.write(paths, foreign.Foreign("ramet", "shop", ("x",)))
    yield Adopted(instances, server, instances.secure(server, is_new=False, neutralize=True))
    instances.remove(server.service_id, 10)


def test_members_of_extensions_and_wrappers_of_a_demoted_superuser_are_the_platforms(adopted: Adopted) -> None:
    assert adopted.refuses("CREATE OR REPLACE VIEW public.pg_stat_statements AS SELECT 1")
    assert adopted.refuses("ALTER FUNCTION public.pg_stat_statements(bool) SECURITY DEFINER")
    assert adopted.refuses("DROP EXTENSION pg_stat_statements")
    assert adopted.refuses("ALTER FOREIGN DATA WRAPPER wrapper RENAME TO other")
    assert adopted.refuses("ALTER SEQUENCE public.numbered_a_seq INCREMENT 2")
    assert not adopted.refuses("ALTER TABLE public.kept ADD b int")
    assert adopted.query("SELECT relowner::regrole::text FROM pg_class WHERE relname = 'kept'") == [("x",)]
    assert adopted.report["adopted"]["objects_kept"] == [
        "shop: extension file_fdw", "shop: extension pg_stat_statements", "shop: foreign data wrapper wrapper",
        "shop: function public.differs(pg_catalog.point,pg_catalog.text)",
        "shop: function public.measured(pg_catalog.point)",
    ]  # fmt: skip
    assert adopted.report["adopted"]["not_reassigned"] == []


def test_no_role_of_the_source_stays_a_member_of_one_that_reaches_the_host_or_locks_catalogs(adopted: Adopted) -> None:
    members = "SELECT FROM pg_auth_members WHERE roleid IN (4569, 6182)"
    assert adopted.query(members) == []
    assert adopted.refuses("BEGIN; LOCK TABLE pg_catalog.pg_stat_activity IN ACCESS EXCLUSIVE MODE")


def test_nobody_can_replace_functions_of_casts_and_operators_that_queries_of_the_platform_use(adopted: Adopted) -> None:
    for function in ("worded(oid)", "measured(point)", "differs(point, text)"):
        assert adopted.refuses(f"ALTER FUNCTION public.{function} STABLE")
    definers = "SELECT FROM pg_proc WHERE proname IN ('worded', 'measured') AND prosecdef"
    assert adopted.query(definers) == []
    assert adopted.query("SELECT 10::oid::text") == [("10",)]


def test_a_renewal_takes_functions_of_casts_that_an_earlier_release_gave_to_tenants(
    adopted: Adopted, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(adopted.paths, "tsdb", "ALTER FUNCTION worded OWNER TO tsdbadmin; ALTER FUNCTION worded SECURITY DEFINER")
    assert not adopted.refuses("ALTER FUNCTION public.worded(oid) STABLE")
    with monkeypatch.context() as patched:
        patched.setattr(read_only_access, "_VERSION", "that of the next release")
        assert adopted.instances.renew(adopted.server.service_id)
    assert adopted.instances.renew(adopted.server.service_id)  # the other tests find this release's
    assert adopted.refuses("ALTER FUNCTION public.worded(oid) STABLE")
    assert adopted.query("SELECT prosecdef FROM pg_proc WHERE proname = 'worded'") == [(False,)]


def test_event_triggers_are_disabled_for_good_unless_an_extension_needs_them(adopted: Adopted) -> None:
    assert adopted.refuses('ALTER EVENT TRIGGER "tr""ap" ENABLE ALWAYS')
    triggers = (
        "SELECT evtname, evtenabled, evtowner FROM pg_event_trigger WHERE evtname <> 'ramet_begin_session' ORDER BY 1"
    )
    assert adopted.query(triggers) == [("first", "D", 10), ("own", "O", 10), ('tr"ap', "D", 10)]
    assert adopted.query("SELECT FROM public.trapped") == []
    assert set(adopted.report["adopted"]["event_triggers_disabled"]) == {
        "closed: closed", "shop: first", 'shop: tr"ap',
    }  # fmt: skip


def test_a_fork_of_a_service_that_moves_keeps_its_login_trigger_or_gets_it_back_by_a_renewal(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_server(instances, pg_major=max(MAJORS))
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    moving = Adopted(instances, server, {})
    trigger = """
    SELECT evtname, evtenabled, evtowner, proowner FROM pg_event_trigger JOIN pg_proc p ON p.oid = evtfoid
    """
    before = moving.query(trigger)
    assert before == [("ramet_begin_session", "O", 10, 10)]
    foreign.write(moving.paths, foreign.Foreign("ramet", "tsdb"))
    report = instances.secure(server, is_new=False, neutralize=False)
    assert moving.query(trigger) == before
    assert report["adopted"]["event_triggers_disabled"] == []
    as_earlier_releases_left_it = "ALTER EVENT TRIGGER {0} DISABLE; ALTER FUNCTION pg_catalog.{0}() OWNER TO tsdbadmin"
    run(moving.paths, "tsdb", as_earlier_releases_left_it.format("ramet_begin_session"))
    assert moving.query(trigger) != before
    monkeypatch.setattr(read_only_access, "_VERSION", "that of the next release")
    assert instances.renew(server.service_id)
    assert moving.query(trigger) == before
    instances.remove(server.service_id, 10)


def test_a_database_that_accepts_no_connections_is_not_left_out(adopted: Adopted) -> None:
    closed = "SELECT datallowconn, datconnlimit FROM pg_database WHERE datname = 'closed'"
    assert adopted.query(closed) == [(False, -1)]
    run(adopted.paths, "postgres", "ALTER DATABASE closed ALLOW_CONNECTIONS true")
    try:
        found = adopted.query("SELECT evtenabled, evtowner FROM pg_event_trigger WHERE evtname = 'closed'", "closed")
    finally:
        run(adopted.paths, "postgres", "ALTER DATABASE closed ALLOW_CONNECTIONS false")
    assert found == [("D", 10)]


def test_databases_of_every_server_are_the_platforms_and_all_others_the_admins(adopted: Adopted) -> None:
    owners = dict(adopted.query("SELECT datname, datdba::regrole::text FROM pg_database"))
    assert owners == {
        **dict.fromkeys(("postgres", "template0", "template1"), "ramet"),
        **dict.fromkeys(("broken", "closed", "firsts", "tsdb"), "tsdbadmin"),
    }
    for statement in ("ALLOW_CONNECTIONS false", "SET work_mem = '1MB'", "RENAME TO other"):
        assert adopted.refuses(f"ALTER DATABASE postgres {statement}")
    with connections.connect(adopted.paths, "tsdb") as connection:
        connection.execute("SET SESSION AUTHORIZATION tsdbadmin")
        connection.execute("ALTER DATABASE firsts ALLOW_CONNECTIONS true")
    kept = "SELECT relowner::regrole::text FROM pg_class WHERE relname = 'kept'"
    try:
        assert adopted.query(kept, "firsts") == [("tsdbadmin",)]
    finally:
        run(adopted.paths, "postgres", "ALTER DATABASE firsts ALLOW_CONNECTIONS false")


def test_foreign_servers_of_the_first_superuser_become_the_admins(adopted: Adopted) -> None:
    assert adopted.query("SELECT srvowner::regrole::text FROM pg_foreign_server") == [("tsdbadmin",)]


def test_a_database_whose_removal_was_interrupted_keeps_no_other_from_being_renewed(adopted: Adopted) -> None:
    with connections.connect(adopted.paths, "tsdb") as connection:
        assert read_only_access.is_current(connection)


def test_nobody_keeps_functions_and_parameters_of_superusers(adopted: Adopted) -> None:
    rights = "SELECT has_function_privilege('app', 'lo_export(oid, text)', 'EXECUTE')"
    assert adopted.query(rights) == [(False,)]
    assert adopted.query("SELECT has_schema_privilege('app', 'pg_catalog', 'CREATE')") == [(False,)]
    assert adopted.query("SELECT has_schema_privilege('app', 'pg_catalog', 'USAGE')") == [(True,)]
    assert adopted.query("SELECT FROM pg_parameter_acl WHERE paracl::text LIKE '%app=%'") == []
    assert adopted.report["adopted"]["functions_revoked"] == ["shop: lo_export(oid,text)", "shop: schema pg_catalog"]
    assert adopted.report["adopted"]["parameters_revoked"] == ["log_statement"]
    assert adopted.query("SELECT has_function_privilege('app', 'pg_sleep(float8)', 'EXECUTE')") == [(False,)]
    run(adopted.paths, "postgres", "DROP USER MAPPING FOR app SERVER far; DROP ROLE app")  # nothing refers to it


def test_credentials_in_the_database_postgres_are_removed_from_it_and_from_its_forks(adopted: Adopted) -> None:
    run(adopted.paths, "postgres", "CREATE USER MAPPING FOR PUBLIC SERVER far OPTIONS (password 'secret')")
    assert adopted.report["user_mappings"] == 1
    again = adopted.instances.secure(adopted.server, is_new=False, neutralize=True)
    assert again["user_mappings"] == 1
    assert again["adopted"] == adopted.report["adopted"]  # a step that was killed runs again, and reports all


def test_a_standby_of_the_database_postgres_is_not_promoted(adopted: Adopted) -> None:
    foreign.write(adopted.paths, foreign.Foreign("ramet", "postgres"))
    try:
        with pytest.raises(Failed, match="postgres"):
            adoption.check_before(adopted.paths)
    finally:
        foreign.forget(adopted.paths)
        foreign.note(adopted.paths, adopted.report["adopted"])


def prepare(paths: ServicePaths, database: str, role: str, gid: str, statement: str) -> None:
    with connections.connect(paths, database, search_path="public") as connection:
        for each in (f"SET ROLE {role}", "BEGIN", statement, f"PREPARE TRANSACTION '{gid}'"):
            connection.execute(each.encode())


@pytest.fixture
def copy(instances: Instances) -> Iterator[Server]:
    """A copy that was not taken over yet."""
    server = new_server(instances)
    paths = instances.paths(server.service_id)
    boot(instances, server)
    run(paths, "postgres", "CREATE ROLE x SUPERUSER LOGIN; CREATE ROLE app")
    run(paths, "postgres", "CREATE DATABASE shop OWNER x")
    run(paths, "shop", _OF_X)
    yield server
    instances.remove(server.service_id, 10)


def secure(instances: Instances, server: Server, database: str, *, neutralize: bool = False) -> dict[str, Any]:
    """Take a copy over after a restart, and return the report."""
    paths = instances.paths(server.service_id)
    instances.stop(server, 30)
    restart(instances, server)
    foreign.write(paths, foreign.Foreign("ramet", database, ("x",)))
    return instances.secure(server, is_new=False, neutralize=neutralize)


def test_an_event_trigger_of_a_source_stays_disabled_that_has_the_name_of_the_login_trigger(
    instances: Instances, copy: Server
) -> None:
    run(instances.paths(copy.service_id), "shop", "ALTER EVENT TRIGGER first RENAME TO ramet_begin_session")
    found = Adopted(instances, copy, secure(instances, copy, "shop"))
    enabled = "SELECT evtenabled FROM pg_event_trigger WHERE evtname = 'ramet_begin_session'"
    assert found.query(enabled) == [("D",)]


@pytest.mark.parametrize("database", ["shop", "tsdb"])
def test_prepared_transactions_stay_unless_they_prevent_it_or_nobody_could_end_them(
    instances: Instances, copy: Server, database: str
) -> None:
    paths = instances.paths(copy.service_id)
    if database != "shop":
        run(paths, "postgres", f"ALTER DATABASE shop RENAME TO {database}")
    prepare(paths, database, "x", "kept", "INSERT INTO kept VALUES (1)")
    prepare(paths, database, "x", "reads", "SELECT FROM pg_stat_statements LIMIT 1")
    prepare(paths, database, "x", "alters", "ALTER ROLE x CONNECTION LIMIT 1")
    prepare(paths, database, "ramet", "first", "INSERT INTO trapped VALUES (1)")
    report = secure(instances, copy, database)
    with connections.connect(paths, "tsdb") as connection:
        assert connection.execute("SELECT gid, owner FROM pg_prepared_xacts").fetchall() == [("kept", "x")]
        connection.execute("COMMIT PREPARED 'kept'")
        assert connection.execute("SELECT a FROM public.kept").fetchall() == [(1,)]
    ended = [f"{database}: {gid}" for gid in ("alters", "first", "reads")]
    assert sorted(report["adopted"]["prepared_transactions_rolled_back"]) == ended
    assert report["adopted"]["not_reassigned"] == []
    assert sorted(report["prepared_transactions"]) == sorted([*ended, "tsdb: kept"])
    assert report["prepared_transactions_rolled_back"] == len(ended)


@pytest.mark.parametrize(
    "statement",
    [
        "GRANT EXECUTE ON FUNCTION lo_export(oid, text) TO app",
        "GRANT SET ON PARAMETER log_statement TO app",
        "GRANT CONNECT ON DATABASE shop TO app",
        "INSERT INTO trapped VALUES (1)",
    ],
)
def test_all_prepared_transactions_end_where_one_locks_what_is_changed(
    instances: Instances, copy: Server, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_roles, "_LOCK_TIMEOUT", "1s")
    paths = instances.paths(copy.service_id)
    run(paths, "shop", "GRANT SET ON PARAMETER log_statement TO x")
    run(paths, "shop", "GRANT INSERT ON trapped TO x")
    prepare(paths, "shop", "x", "locks", statement)
    report = secure(instances, copy, "shop")
    assert report["adopted"]["not_reassigned"] == []
    assert report["adopted"]["prepared_transactions_rolled_back"] == ["shop: locks"]
    assert report["adopted"]["database"] == "shop"
    with connections.connect(paths, "tsdb") as connection:
        assert connection.execute("SELECT FROM pg_prepared_xacts").fetchall() == []


def test_a_copy_that_is_neutralized_keeps_no_prepared_transaction(instances: Instances, copy: Server) -> None:
    prepare(instances.paths(copy.service_id), "shop", "x", "writes", "INSERT INTO kept VALUES (1)")
    report = secure(instances, copy, "shop", neutralize=True)
    assert (report["prepared_transactions"], report["prepared_transactions_rolled_back"]) == (["shop: writes"], 1)


@pytest.mark.parametrize("stage", ["_demote", "_make_admin_owner", "_check_database"])
def test_the_report_has_also_what_interrupted_calls_have_changed(
    instances: Instances, copy: Server, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    prepare(instances.paths(copy.service_id), "shop", "x", "writes", "INSERT INTO kept VALUES (1)")

    def fail(*_arguments: object) -> None:
        raise RuntimeError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr(adoption, stage, fail)
        with pytest.raises(RuntimeError, match="interrupted"):
            secure(instances, copy, "shop", neutralize=True)
    report = instances.secure(copy, is_new=False, neutralize=True)
    adopted = report["adopted"]
    assert report["prepared_transactions"] == adopted["prepared_transactions_rolled_back"] == ["shop: writes"]
    assert adopted["superusers_demoted"] == ["x"]
    assert adopted["event_triggers_disabled"] == ["shop: first", 'shop: tr"ap']
    assert adopted["functions_revoked"] == ["shop: lo_export(oid,text)", "shop: schema pg_catalog"]
    assert (adopted["not_reassigned"], adopted["database"]) == ([], "shop")


def test_a_prepared_transaction_that_locks_an_extension_is_noted_before_it_is_rolled_back(
    instances: Instances, copy: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(instances.paths(copy.service_id), "shop", "x", "reads", "SELECT FROM pg_stat_statements LIMIT 1")
    note = foreign.note

    def fail(paths: ServicePaths, changes: dict[str, Any]) -> None:
        if "shop: reads" in changes.get("prepared_transactions_rolled_back", []):
            raise RuntimeError("interrupted")
        note(paths, changes)

    with monkeypatch.context() as patched:
        patched.setattr(foreign, "note", fail)
        with pytest.raises(RuntimeError, match="interrupted"):
            secure(instances, copy, "shop")
    report = instances.secure(copy, is_new=False, neutralize=False)
    assert report["adopted"]["prepared_transactions_rolled_back"] == ["shop: reads"]
