"""Functions of tenants are silent while a superuser plans or restores, and are afterwards what they were."""

from collections.abc import Iterator

import psycopg
import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.upgrades import silence
from ramet.errors import Failed
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
CREATE FUNCTION app.lowered(r app.indexed) RETURNS text LANGUAGE sql AS 'SELECT lower(r.n::bit(8)::text)';
CREATE INDEX ON app.indexed (app.lowered(indexed));
CREATE FUNCTION app.window(n int) RETURNS bool WINDOW LANGUAGE plpgsql AS $$BEGIN RETURN app.told(n) > 0; END$$;
CREATE OPERATOR app.@@@@ (FUNCTION = app.window, RIGHTARG = int);
CREATE FUNCTION app.written(n int, m int DEFAULT lo_from_bytea(47110, 'by a superuser')::int) RETURNS bool
    LANGUAGE sql AS 'SELECT true';
CREATE DOMAIN app.acting AS int CHECK (OPERATOR(app.@@@@) VALUE) CONSTRAINT "it's" CHECK (app.written(VALUE));
ALTER DOMAIN app.acting ADD CONSTRAINT later CHECK (VALUE IS NOT NULL AND coalesce(app.told(VALUE), -1) > 0) NOT VALID;
COMMENT ON CONSTRAINT later ON DOMAIN app.acting IS 'stays';
CREATE TYPE app.acts AS (a app.acting, b int);
CREATE INDEX ON app.indexed ((n + (app.populate_record(NULL::app.acts, app.hstore(ARRAY['a','1','b','2']))).b));
ALTER FUNCTION app.again DEPENDS ON EXTENSION hstore;
CREATE AGGREGATE app.sum_told(int) (SFUNC = int4pl, STYPE = int, INITCOND = '0')
"""
CHECKS = """
SELECT c.conname, c.contypid::regtype::text, pg_get_constraintdef(c.oid), obj_description(c.oid, 'pg_constraint'),
ARRAY(SELECT pg_describe_object(refclassid, refobjid, refobjsubid) || deptype::text FROM pg_depend
      WHERE classid = 'pg_constraint'::regclass AND objid = c.oid ORDER BY 1)
FROM pg_constraint c WHERE c.contypid IN ('app.checked'::regtype, 'app.acting'::regtype) ORDER BY c.oid
"""
DEFINITIONS = """
SELECT f.oid::regprocedure::text, pg_get_functiondef(f.oid), f.proowner::regrole::text, f.proacl::text,
ARRAY(SELECT pg_describe_object(refclassid, refobjid, refobjsubid) || deptype::text FROM pg_depend
      WHERE classid = 'pg_proc'::regclass AND objid = f.oid ORDER BY 1)
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
        connection.execute("CREATE EXTENSION hstore SCHEMA app")
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
    with silence.silenced(database, "tsdb"):
        assert database.execute(COUNT.encode()).fetchall() == [(7,)]
    assert database.execute(DEFINITIONS.encode()).fetchall() == before


def test_functions_are_given_back_as_they_were_without_executing_one(database: Connection) -> None:
    before = database.execute(DEFINITIONS.encode()).fetchall(), database.execute(CHECKS.encode()).fetchall()
    for _ in range(2):
        silence.begin(database, "tsdb", TOKEN)
    assert database.execute("SELECT app.told(1), app.again(1), app.row_text(row(1)), app.same(1)").fetchall() == [
        (None, None, None, None)
    ]
    assert database.execute("SELECT app.nothing(), (app.two()).a").fetchall() == [("", None)]
    assert database.execute("SELECT '(-1,x)'::app.pair::text").fetchall() == [("(-1,x)",)]
    assert database.execute("SELECT '(-1,2)'::app.acts::text").fetchall() == [("(-1,2)",)]
    assert database.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchall() == [(0,)]
    for _ in range(2):
        silence.end(database, "tsdb", TOKEN)
    after = database.execute(DEFINITIONS.encode()).fetchall(), database.execute(CHECKS.encode()).fetchall()
    assert after == before
    database.execute("SET ROLE app")
    with pytest.raises(psycopg.errors.CheckViolation, match=r"domain app\.acting"):
        database.execute("SELECT '(-1,2)'::app.acts")
    assert database.execute("SELECT app.again(3), app.told(4)").fetchall() == [(6, 4)]


def test_a_definition_that_is_refused_is_named_and_stays_silent(database: Connection) -> None:
    silence.begin(database, "tsdb", TOKEN)
    database.execute("ALTER FUNCTION app.quoted RENAME TO other")
    for _ in range(2):
        with pytest.raises(Failed, match=r"refuses function app\.parsed\(app\.pair\) in database tsdb: .*quoted"):
            silence.end(database, "tsdb", TOKEN)
    assert database.execute("SELECT app.told(1)").fetchall() == [(None,)]


def test_a_function_that_pretends_to_be_silenced_gets_no_other_language(database: Connection) -> None:
    database.execute("SET ROLE app")
    database.execute("CREATE FUNCTION app.sly() RETURNS text LANGUAGE sql AS 'SELECT NULL /* guess 63 6c6f 00 */'")
    database.execute("RESET ROLE")
    silence.begin(database, "tsdb", TOKEN)
    silence.end(database, "tsdb", TOKEN)
    found = database.execute("SELECT lanname, prosrc FROM pg_proc f JOIN pg_language l ON l.oid = prolang "
                             "WHERE proname = 'sly'").fetchall()  # fmt: skip
    assert found == [("sql", "SELECT NULL /* guess 63 6c6f 00 */")]
