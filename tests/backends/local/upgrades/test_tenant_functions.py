"""Functions of tenants are silent while a superuser plans or restores, and are afterwards what they were."""

from collections.abc import Iterator

import psycopg
import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.upgrades import tenant_functions
from ramet.machine.installation import find_installations
from tests.backends.local.hosts import boot, new_server

MAJORS = sorted({min(find_installations().by_major), max(find_installations().by_major)})
TOKEN = "x1y2z3"
COUNT = "SELECT count(*) FROM ONLY app.indexed"
FUNCTIONS = """
CREATE FUNCTION app.told(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
    $$BEGIN IF current_setting('is_superuser') = 'on' THEN RAISE 'executed by a superuser'; END IF; RETURN n; END$$;
CREATE TABLE app.indexed (n int);
INSERT INTO app.indexed SELECT generate_series(1, 7);
CREATE INDEX ON app.indexed ((n + app.told(1)));
CREATE DOMAIN app.checked AS int CHECK (app.told(VALUE) > 0);
CREATE TYPE app.pair AS (a app.checked, b text);
CREATE FUNCTION app.quoted(text) RETURNS text LANGUAGE sql AS $$SELECT $1 || ' it''s */ /* E\\\\ "ü"'$$;
CREATE FUNCTION app.parsed(p app.pair DEFAULT '(1,x)') RETURNS int IMMUTABLE LANGUAGE sql
    BEGIN ATOMIC SELECT app.told((p).a) + app.told(((app.quoted('1'), 'y')::text IS NOT NULL)::int); END;
CREATE FUNCTION app.again(n int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT app.parsed('(2,y)') + n; END;
CREATE FUNCTION app.nothing() RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION app.many(OUT a int, OUT b int) RETURNS SETOF record LANGUAGE sql AS 'SELECT 1, 2';
CREATE FUNCTION app.two(OUT a int, OUT b int) LANGUAGE plpgsql AS 'BEGIN a := 1; b := 2; END';
CREATE FUNCTION app.row_text(r record) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN r::text; END';
CREATE FUNCTION app.same(v anyelement) RETURNS anyelement LANGUAGE sql AS 'SELECT v';
CREATE FUNCTION app.fired() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE PROCEDURE app.act() LANGUAGE plpgsql AS 'BEGIN COMMIT; END';
CREATE AGGREGATE app.sum_told(int) (SFUNC = int4pl, STYPE = int, INITCOND = '0')
"""
DEFINITIONS = """
SELECT f.oid::regprocedure::text, pg_get_functiondef(f.oid), f.proowner::regrole::text, f.proacl::text
FROM pg_proc f WHERE f.pronamespace = 'app'::regnamespace AND f.prokind <> 'a' ORDER BY 1
"""


@pytest.fixture(scope="module", params=MAJORS)
def server(instances: Instances, request: pytest.FixtureRequest) -> Iterator[Server]:
    made = new_server(instances, pg_major=request.param)
    boot(instances, made)
    yield made
    instances.remove(made.service_id, 10)


@pytest.fixture
def database(instances: Instances, server: Server) -> Iterator[Connection]:
    """The functions of a role without attributes."""
    with connections.connect(instances.paths(server.service_id)) as connection:
        connection.execute("DROP SCHEMA IF EXISTS app CASCADE")
        connection.execute("DROP ROLE IF EXISTS app")
        connection.execute("CREATE ROLE app")
        connection.execute("CREATE SCHEMA app AUTHORIZATION app")
        connection.execute("SET ROLE app")
        for statement in FUNCTIONS.split(";\n"):
            connection.execute(statement.encode())
        connection.execute("REVOKE ALL ON FUNCTION app.parsed FROM PUBLIC")
        connection.execute("RESET ROLE")
        yield connection


def test_a_superuser_that_counts_rows_executes_nothing_of_tenants(database: Connection) -> None:
    before = database.execute(DEFINITIONS.encode()).fetchall()
    with pytest.raises(psycopg.errors.RaiseException, match="executed by a superuser"):
        database.execute(COUNT.encode())
    with tenant_functions.silenced(database):
        assert database.execute(COUNT.encode()).fetchall() == [(7,)]
    assert database.execute(DEFINITIONS.encode()).fetchall() == before


def test_functions_are_given_back_as_they_were_without_executing_one(database: Connection) -> None:
    before = database.execute(DEFINITIONS.encode()).fetchall()
    for _ in range(2):
        tenant_functions.silence(database, TOKEN)
    assert database.execute("SELECT app.told(1), app.again(1), app.row_text(row(1)), app.same(1)").fetchall() == [
        (None, None, None, None)
    ]
    assert database.execute("SELECT app.nothing(), (app.two()).a").fetchall() == [("", None)]
    assert database.execute("SELECT '(1,x)'::app.pair::text").fetchall() == [("(1,x)",)]
    for _ in range(2):
        tenant_functions.give_back(database, TOKEN)
    assert database.execute(DEFINITIONS.encode()).fetchall() == before
    database.execute("SET ROLE app")
    assert database.execute("SELECT app.again(3), app.told(4)").fetchall() == [(6, 4)]


def test_a_function_that_pretends_to_be_silenced_gets_no_other_language(database: Connection) -> None:
    database.execute("SET ROLE app")
    database.execute("CREATE FUNCTION app.sly() RETURNS text LANGUAGE sql AS 'SELECT NULL /* guess 63 6c6f 00 */'")
    database.execute("RESET ROLE")
    tenant_functions.silence(database, TOKEN)
    tenant_functions.give_back(database, TOKEN)
    found = database.execute("SELECT lanname, prosrc FROM pg_proc f JOIN pg_language l ON l.oid = prolang "
                             "WHERE proname = 'sly'").fetchall()  # fmt: skip
    assert found == [("sql", "SELECT NULL /* guess 63 6c6f 00 */")]


@pytest.mark.parametrize(
    ("check", "named"),
    [
        ("pg_catalog.lo_export(1, VALUE) > 0", "lo_export"),
        ("VALUE = pg_catalog.pg_read_file(VALUE)", "pg_read_file"),
        ("pg_catalog.table_to_xml(VALUE::regclass, true, true, '') IS NOT NULL", "table_to_xml"),
        ("VALUE ~ '^[a-z]+$' AND length(VALUE) < 9 AND app.told(length(VALUE)) > 0 AND now() > '2020-01-01'", None),
    ],
)
def test_checks_of_domains_that_do_more_than_compute_are_refused(
    database: Connection, check: str, named: str | None
) -> None:
    database.execute(f"SET ROLE app; CREATE DOMAIN app.acting AS text CHECK ({check}); RESET ROLE".encode())
    found = [one for one in tenant_functions.refusals(database, "tsdb") if one.subject == "domain app.acting"]
    assert bool(found) == (named is not None)
    assert all(str(named) in one.message for one in found)
