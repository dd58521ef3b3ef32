"""ANALYZE and the check for damage where functions of tenants fail or hang: what is sound is found sound, in time."""

from collections.abc import Iterator

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.amcheck import read_all
from ramet.backends.local.server.analyze import collect
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.tenant_code import Allowance
from tests.backends.local.hosts import boot, new_server

MAJORS = (15, 18)
CATCHES_CANCELLATION = """
CREATE OR REPLACE FUNCTION app.twice(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        BEGIN PERFORM pg_catalog.pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END;
    END LOOP;
END $$
"""
SQUATTER = """
CREATE FUNCTION app.bt_index_parent_check(oid, boolean) RETURNS void LANGUAGE sql AS 'INSERT INTO app.calls VALUES (1)'
"""
IN_PG_CATALOG = """
CREATE FUNCTION pg_catalog.bt_index_parent_check(oid, boolean) RETURNS void LANGUAGE sql
AS 'INSERT INTO app.calls VALUES (2)';
CREATE FUNCTION pg_catalog.verify_heapam(relation regclass, on_error_stop boolean, check_toast boolean, skip text,
    OUT blkno bigint, OUT offnum integer, OUT msg text) RETURNS SETOF record LANGUAGE sql
AS 'INSERT INTO app.calls VALUES (3) RETURNING n, n, NULL::text';
CREATE FUNCTION pg_catalog.bt_index_check(regclass) RETURNS void LANGUAGE sql AS 'INSERT INTO app.calls VALUES (4)'
"""
RANGE_THAT_CATCHES_CANCELLATION = """
CREATE FUNCTION app.difference(a float8, b float8) RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        BEGIN PERFORM pg_catalog.pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END;
    END LOOP;
END $$;
CREATE TYPE app.reach AS RANGE (subtype = float8, subtype_diff = app.difference);
CREATE TABLE app.reaches AS SELECT app.reach(n, n + 1) FROM generate_series(1, 1000) n;
"""
ORDER_THAT_CATCHES_CANCELLATION = """
CREATE FUNCTION app.compared(a {type}, b {type}) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 0; END';
CREATE OPERATOR CLASS app.slowly {default} FOR TYPE {type} USING btree AS {operators} FUNCTION 1 app.compared;
CREATE TABLE app.ordered AS SELECT {value} AS n FROM generate_series(1, 10);
CREATE INDEX ordered_n ON app.ordered (n {operator_class});
CREATE OR REPLACE FUNCTION app.compared(a {type}, b {type}) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        BEGIN PERFORM pg_catalog.pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END;
    END LOOP;
END $$
"""
INTEGERS = {
    "type": "int", "default": "", "value": "1", "operator_class": "app.slowly",
    "operators": "OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,",
}  # fmt: skip
ARRAYS = {
    "type": "xid", "default": "DEFAULT", "value": "ARRAY['1'::xid]", "operator_class": "",
    "operators": "OPERATOR 3 =,",
}  # fmt: skip
ANALYZED = "SELECT relname FROM pg_stat_user_tables WHERE last_analyze IS NOT NULL ORDER BY 1"


@pytest.fixture(params=MAJORS)
def server(instances: Instances, request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param not in {one.major for one in instances.installations.found}:
        pytest.skip(f"PostgreSQL {request.param} is not installed")
    made = new_server(instances, pg_major=request.param)
    boot(instances, made)
    yield made
    instances.remove(made.service_id, 10)


@pytest.fixture
def paths(instances: Instances, server: Server) -> ServicePaths:
    """A server with an index whose expression finds a function by its owner's search path only."""
    found = instances.paths(server.service_id)
    with connections.connect(found) as connection:
        for statement in (
            "CREATE SCHEMA app",
            "CREATE FUNCTION app.helper(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN n * 2; END'",
            "CREATE FUNCTION app.twice(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN helper(n); END'",
            "CREATE TABLE app.odd (n int)",
            "CREATE INDEX odd_twice ON app.odd (app.twice(n))",
            "CREATE TABLE app.plain AS SELECT n FROM generate_series(1, 1000) n",
            "CREATE INDEX plain_n ON app.plain (n)",
            "SET search_path = app",
            "INSERT INTO odd SELECT n FROM generate_series(1, 1000) n",
        ):
            connection.execute(statement.encode())
    return found


def run(paths: ServicePaths, statement: str) -> list[str]:
    with connections.connect(paths) as connection:
        cursor = connection.execute(statement.encode())
        return [row[0] for row in cursor] if cursor.description else []


def test_an_index_on_a_function_that_is_called_without_its_schema_is_sound_and_analyzed(paths: ServicePaths) -> None:
    assert read_all(paths, Allowance()) == ""
    assert collect(paths, Allowance()) == "collected"
    assert run(paths, ANALYZED) == ["odd", "plain"]


def test_a_function_that_always_fails_is_no_damage_and_hinders_no_other_table(paths: ServicePaths) -> None:
    run(paths, "DROP FUNCTION app.helper(int)")
    assert read_all(paths, Allowance()) == ""
    assert collect(paths, Allowance()) == "collected"
    assert run(paths, ANALYZED) == ["odd", "plain"]


def test_a_function_that_no_time_limit_ends_is_ended_with_its_session(paths: ServicePaths) -> None:
    run(paths, CATCHES_CANCELLATION)
    impatient = {"statement_seconds": 0.2, "grace_seconds": 0.2}
    assert read_all(paths, Allowance(**impatient)) == ""
    ended = collect(paths, Allowance(**impatient))
    assert "app.odd" in ended
    assert "plain" not in ended
    assert "plain" in run(paths, ANALYZED)


def test_a_function_of_a_range_type_that_no_time_limit_ends_is_ended_with_its_session(paths: ServicePaths) -> None:
    run(paths, RANGE_THAT_CATCHES_CANCELLATION)
    assert "app.reaches: its session was terminated" in collect(paths, Allowance(plain_seconds=1.0, grace_seconds=0.2))


@pytest.mark.parametrize("ordered", [INTEGERS, ARRAYS], ids=["of the index", "of its elements"])
def test_a_function_of_an_operator_class_that_no_time_limit_ends_is_ended_with_its_session(
    paths: ServicePaths, ordered: dict[str, str]
) -> None:
    run(paths, ORDER_THAT_CATCHES_CANCELLATION.format(**ordered))
    run(paths, "DROP FUNCTION app.twice(int) CASCADE")
    assert read_all(paths, Allowance(statement_seconds=0.2, grace_seconds=0.2)) == ""


def test_a_prepared_transaction_that_locks_a_table_is_no_damage(paths: ServicePaths) -> None:
    with connections.connect(paths) as connection:
        for statement in ("BEGIN", "LOCK TABLE app.plain", "PREPARE TRANSACTION 'it''s mine'"):
            connection.execute(statement.encode())
    assert read_all(paths, Allowance()) == ""


def test_no_function_of_a_tenant_is_called_instead_of_an_old_amcheck(paths: ServicePaths) -> None:
    for statement in (
        "CREATE EXTENSION amcheck SCHEMA app VERSION '1.2'",
        "CREATE VIEW app.checked AS SELECT 1 AS n FROM app.bt_index_check('app.plain_n')",
        "CREATE TABLE app.calls (n int)",
        SQUATTER,
        IN_PG_CATALOG,
    ):
        run(paths, statement)
    assert read_all(paths, Allowance()) == ""
    assert run(paths, "SELECT n FROM app.calls") == []


def test_an_index_that_lacks_a_row_of_its_table_is_damage(paths: ServicePaths) -> None:
    for statement in (
        "CREATE OR REPLACE FUNCTION app.twice(n int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 * 2'",
        "UPDATE pg_index SET indisready = false WHERE indexrelid = 'app.plain_n'::regclass",
        "INSERT INTO app.plain VALUES (4711)",
        "UPDATE pg_index SET indisready = true WHERE indexrelid = 'app.plain_n'::regclass",
    ):
        run(paths, statement)
    assert "plain_n" in read_all(paths, Allowance())
