"""docs/read-only.md tells the truth: what its tables call refused is refused, and what they call possible is."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.server import read_only_module
from ramet.backends.local.server.instances import Instances
from ramet.model.passwords import Secret, new_password
from tests.backends.local.hosts import boot, connect, new_server
from tests.servers import installations

PAGE = Path(__file__).parents[3] / "docs" / "read-only.md"
READ_ONLY = "-c tsdb_admin.read_only_connection=true"
OFF = "SET default_transaction_read_only = off"
STATEMENTS = {
    "INSERT": "INSERT INTO orders (title) VALUES ('x')",
    "UPDATE": "UPDATE orders SET title = 'x'",
    "DELETE": "DELETE FROM orders WHERE id = 1",
    "MERGE": "MERGE INTO orders o USING (SELECT 2 AS id) s ON o.id = s.id WHEN MATCHED THEN DELETE",
    "TRUNCATE": "TRUNCATE copies",
    "COPY": "COPY orders (title) FROM STDIN",
    "DO": "DO $$BEGIN DELETE FROM orders WHERE id = 3; END$$",
    "CALL": "CALL clear()",
    "EXECUTE": "PREPARE p AS DELETE FROM orders WHERE id = 4; EXECUTE p",
    "SELECT FOR UPDATE": "SELECT * FROM orders FOR UPDATE",
    "CREATE": "CREATE TABLE mine (id int)",
    "CREATE TEMP TABLE": "CREATE TEMP TABLE passing (id int)",
    "ALTER": "ALTER TABLE mine ADD COLUMN more int",
    "DROP": "DROP TABLE mine",
    "GRANT": "GRANT SELECT ON orders TO PUBLIC",
    "COMMENT": "COMMENT ON TABLE orders IS 'x'",
    "SELECT INTO": "SELECT * INTO mine FROM orders",
    "REFRESH MATERIALIZED VIEW": "REFRESH MATERIALIZED VIEW titles",
    "CREATE DATABASE": "CREATE DATABASE another",
    "ALTER DATABASE": "ALTER DATABASE another SET work_mem = '5MB'",
    "DROP DATABASE": "DROP DATABASE another",
    "CREATE ROLE": "CREATE ROLE other",
    "ALTER ROLE": "ALTER ROLE other SET work_mem = '5MB'",
    "DROP ROLE": "DROP ROLE other",
    "nextval": "SELECT nextval('orders_id_seq')",
    "setval": "SELECT setval('orders_id_seq', 20)",
    "lo_create": "SELECT lo_create(0)",
    "lo_from_bytea": "SELECT lo_from_bytea(0, 'x')",
    "lo_put": "SELECT lo_put(4242, 0, 'x')",
    "lo_unlink": "SELECT lo_unlink(4242)",
    "VACUUM": "VACUUM orders",
    "ANALYZE": "ANALYZE orders",
    "CHECKPOINT": "CHECKPOINT",
    "CLUSTER": "CLUSTER orders USING orders_pkey",
    "REINDEX": "REINDEX TABLE orders",
    "LOCK TABLE": "BEGIN; LOCK TABLE orders; ROLLBACK",
    "NOTIFY": "NOTIFY somebody",
    "pg_advisory_lock": "SELECT pg_advisory_lock(1)",
    "pg_logical_emit_message": "SELECT pg_logical_emit_message(true, 'x', 'y')",
    "PREPARE TRANSACTION": "BEGIN; SELECT 1; PREPARE TRANSACTION 'kept'",
    "COMMIT PREPARED": "COMMIT PREPARED 'kept'",
    "pg_terminate_backend": "SELECT pg_terminate_backend(0)",
}
ESCAPES = (
    ["SET default_transaction_read_only = off"],
    ["BEGIN READ WRITE"],
    ["BEGIN", "SET TRANSACTION READ WRITE"],
    ["BEGIN", "SET transaction_read_only = off"],
    ["BEGIN", "RESET transaction_read_only"],
    ["SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE"],
    ["RESET default_transaction_read_only"],
    ["RESET ALL"],
    ["DISCARD ALL"],
    ["SELECT set_config('default_transaction_read_only', 'off', false)"],
    ["SET tsdb_admin.read_only_connection = false"],
    ["RESET tsdb_admin.read_only_connection"],
    ["DO $$BEGIN ROLLBACK; SET TRANSACTION READ WRITE; DELETE FROM orders; END$$"],
    ["CALL escape()"],
)
IS_BUILT = {one.major: read_only_module.library_of(one.major).exists() for one in installations().found}
PLACES = [(major, has) for major, built in IS_BUILT.items() for has in ((False, True) if built else (False,))]


@dataclass(frozen=True)
class Tenant:
    """The admin of a service, with the module or without."""

    server: Server
    password: Secret
    has_module: bool

    @property
    def column(self) -> str:
        if self.has_module:
            return "with the module"
        return "15 and 16" if self.server.pg_major < 17 else "17 and 18"

    def run(self, *statements: str, options: str = "", user: str = "tsdbadmin", password: str = "") -> object:
        secret = password or self.password
        with connect(self.server, secret, user=user, sslmode="prefer", options=options) as connection:
            for statement in statements:
                cursor = connection.cursor()
                if statement.startswith("COPY"):
                    with cursor.copy(statement.encode()):
                        pass
                else:
                    cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def is_refused(self, *statements: str) -> bool:
        try:
            self.run(*statements, options=READ_ONLY)
        except psycopg.errors.ReadOnlySqlTransaction:
            return True
        return False


def name_of_place(place: tuple[int, bool]) -> str:
    return f"{place[0]}{'-module' if place[1] else ''}"


@pytest.fixture(scope="module", params=PLACES, ids=name_of_place)
def tenant(
    request: pytest.FixtureRequest, instances: Instances, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tenant]:
    """The admin of a service, of each installed PostgreSQL in turn."""
    major, has_module = request.param
    password = new_password()
    server = new_server(instances, password, pg_major=major)
    with pytest.MonkeyPatch.context() as patch:
        if not has_module:
            patch.setattr(read_only_module, "library_of", lambda major: tmp_path_factory.getbasetemp() / "none.so")
        boot(instances, server)
        instances.secure(server, is_new=True, neutralize=False)
        instances.open(server)
    made = Tenant(server, password, has_module)
    made.run(
        "CREATE TABLE orders (id serial PRIMARY KEY, title text)",
        "INSERT INTO orders (title) SELECT 'order ' || n FROM generate_series(1, 10) n",
        "CREATE TABLE copies AS SELECT * FROM orders",
        "CREATE TABLE shared AS SELECT * FROM orders",
        "GRANT ALL ON shared TO PUBLIC",
        "CREATE MATERIALIZED VIEW titles AS SELECT title FROM orders",
        "CREATE PROCEDURE clear() LANGUAGE sql AS 'DELETE FROM orders WHERE id = 5'",
        "CREATE PROCEDURE escape() LANGUAGE plpgsql AS"
        " 'BEGIN COMMIT; SET TRANSACTION READ WRITE; DELETE FROM orders; END'",
        "CREATE FUNCTION add_copy() RETURNS void SECURITY DEFINER LANGUAGE sql AS 'INSERT INTO copies VALUES (1)'",
        "SELECT lo_create(4242)",
        "SELECT timescale_functions.create_bare_readonly_role('agent', 'its own')",
        "SELECT timescale_functions.grant_tsdbadmin_to_role('agent')",
    )
    yield made
    instances.remove(server.service_id, 10)


def rows(heading: str) -> list[dict[str, str]]:
    """Return the rows of the page's table whose first column's heading holds a text, by its headings."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines()]
    start = next(number for number, cells in enumerate(lines) if heading in cells[0] and len(cells) > 2)
    table = [cells for cells in lines[start + 2 :] if len(cells) == len(lines[start])]
    return [dict(zip(["what", *lines[start][1:]], cells, strict=True)) for cells in table]


def names(row: dict[str, str]) -> list[str]:
    return re.findall(r"`([^`]+)`", row["what"])


STATEMENT_ROWS = [row for row in rows("in a session") if not row["what"].startswith("all of these")]


def test_the_page_names_what_is_tried_here() -> None:
    assert [name for row in STATEMENT_ROWS for name in names(row)] == list(STATEMENTS)


@pytest.mark.parametrize("row", STATEMENT_ROWS, ids=lambda row: names(row)[0])
def test_a_read_only_session_is_refused_what_the_page_says(tenant: Tenant, row: dict[str, str]) -> None:
    refused = {name for name in names(row) if tenant.is_refused(STATEMENTS[name])}
    assert refused == (set(names(row)) if row[tenant.column] == "refused" else set())


def test_a_read_only_session_can_set_it_back_where_the_page_says_so(tenant: Tenant) -> None:
    (row,) = [row for row in rows("in a session") if row["what"].startswith("all of these")]
    is_refused = row[tenant.column] == "refused"
    writes = ("UPDATE orders SET title = 'y'", "CREATE SCHEMA IF NOT EXISTS escaped", "SELECT lo_unlink(lo_create(0))")
    for write in writes:
        assert tenant.is_refused(OFF, write) is is_refused
        assert tenant.is_refused("BEGIN READ WRITE", write) is is_refused


@pytest.mark.parametrize(
    "tenant", [place for place in PLACES if place[1]], ids=name_of_place, indirect=True, scope="module"
)
@pytest.mark.parametrize("escape", ESCAPES, ids="; ".join)
def test_with_the_module_no_setting_makes_a_read_only_session_writable(tenant: Tenant, escape: list[str]) -> None:
    with pytest.raises((psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.FeatureNotSupported)):
        tenant.run(*escape, "INSERT INTO orders (title) VALUES ('escaped')", options=READ_ONLY)
    assert tenant.run("SELECT count(*) FROM orders WHERE title = 'escaped'") == [(0,)]


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO orders (title) VALUES ('x')", "DELETE FROM orders", "CREATE TABLE public.mine (id int)",
     "SELECT nextval('orders_id_seq')", "CREATE SCHEMA mine", "SET ROLE tsdbadmin", "SET ROLE pg_write_all_data",
     "CREATE ROLE mine",
     "SELECT timescale_functions.grant_tsdbadmin_to_role('agent')",
     "ALTER ROLE agent RESET tsdb_admin.read_only_role"],
)  # fmt: skip
@pytest.mark.parametrize("before", [OFF, "RESET ALL", "BEGIN READ WRITE"])
def test_a_read_only_role_cannot_write(tenant: Tenant, statement: str, before: str) -> None:
    # On 15 Ramet deletes pg_write_all_data.
    denied = (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidParameterValue)
    with pytest.raises((*denied, psycopg.errors.ReadOnlySqlTransaction)):
        tenant.run(before, statement, user="agent", password="its own")
    if not tenant.has_module:
        with pytest.raises(denied):
            tenant.run(OFF, statement, user="agent", password="its own")


@pytest.mark.parametrize(
    ("row", "statement"),
    [(1, "SELECT lo_create(0)"), (1, "CREATE TEMP TABLE t (id int)"), (2, "DELETE FROM shared"),
     (2, "SELECT add_copy()")],
)  # fmt: skip
@pytest.mark.parametrize("options", ["", "-c tsdb_admin.read_only_role=false"])
def test_what_every_role_may_is_refused_with_the_module(tenant: Tenant, row: int, statement: str, options: str) -> None:
    column = "with the module" if tenant.has_module else "without the module"
    shown = rows("as a read-only role")[row][column]
    if shown == "refused":
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            tenant.run(OFF, statement, user="agent", password="its own", options=options)
    else:
        tenant.run(OFF, statement, user="agent", password="its own", options=options)
