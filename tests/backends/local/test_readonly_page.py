"""docs/read-only.md tells the truth: what it says is refused is refused, and what it says is possible is."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from ramet.backends.base import Server
from ramet.backends.local.installation import find_installations
from ramet.backends.local.servers import Servers
from ramet.model.credentials import Secret, new_password
from tests.backends.local.hosts import boot, connect, new_server

PAGE = Path(__file__).parents[3] / "docs" / "read-only.md"
READ_ONLY = "-c tsdb_admin.read_only_connection=true"
REFUSED = {
    "INSERT": "INSERT INTO orders (title) VALUES ('x')",
    "UPDATE": "UPDATE orders SET title = 'x'",
    "DELETE": "DELETE FROM orders",
    "MERGE": "MERGE INTO orders o USING (SELECT 1 AS id) s ON o.id = s.id WHEN MATCHED THEN DELETE",
    "TRUNCATE": "TRUNCATE orders",
    "COPY": "COPY orders (title) FROM STDIN",
    "DO": "DO $$BEGIN DELETE FROM orders; END$$",
    "CALL": "CALL clear()",
    "EXECUTE": "PREPARE p AS DELETE FROM orders; EXECUTE p",
    "CREATE": "CREATE TEMP TABLE mine (id int)",
    "ALTER": "ALTER TABLE orders ADD COLUMN more int",
    "DROP": "DROP TABLE orders",
    "GRANT": "GRANT SELECT ON orders TO PUBLIC",
    "COMMENT": "COMMENT ON TABLE orders IS 'x'",
    "SELECT INTO": "SELECT * INTO mine FROM orders",
    "REFRESH MATERIALIZED VIEW": "REFRESH MATERIALIZED VIEW titles",
}
POSSIBLE = {
    "nextval": "SELECT nextval('orders_id_seq')",
    "setval": "SELECT setval('orders_id_seq', 20)",
    "lo_create": "SELECT lo_create(0)",
    "lo_from_bytea": "SELECT lo_from_bytea(0, 'x')",
    "lo_put": "SELECT lo_put(4242, 0, 'x')",
    "lo_unlink": "SELECT lo_unlink(4242)",
    "CREATE DATABASE": "CREATE DATABASE another",
    "ALTER DATABASE": "ALTER DATABASE another SET work_mem = '5MB'",
    "COMMENT ON DATABASE": "COMMENT ON DATABASE another IS 'x'",
    "GRANT ON DATABASE": "GRANT CONNECT ON DATABASE another TO pg_monitor",
    "DROP DATABASE": "DROP DATABASE another",
    "CREATE ROLE": "CREATE ROLE other",
    "ALTER ROLE": "ALTER ROLE other SET work_mem = '5MB'",
    "COMMENT ON ROLE": "COMMENT ON ROLE other IS 'x'",
    "GRANT ROLE": "GRANT pg_monitor TO other",
    "REASSIGN OWNED": "GRANT other TO tsdbadmin; REASSIGN OWNED BY other TO tsdbadmin",
    "DROP ROLE": "DROP ROLE other",
    "VACUUM": "VACUUM orders",
    "ANALYZE": "ANALYZE orders",
    "CHECKPOINT": "CHECKPOINT",
    "CLUSTER": "CLUSTER orders USING orders_pkey",
    "REINDEX": "REINDEX TABLE orders",
    "LOCK TABLE": "BEGIN; LOCK TABLE orders; ROLLBACK",
    "SELECT FOR UPDATE": "SELECT * FROM orders FOR UPDATE",
    "NOTIFY": "NOTIFY somebody",
    "pg_logical_emit_message": "SELECT pg_logical_emit_message(true, 'x', 'y')",
    "pg_advisory_lock": "SELECT pg_advisory_lock(1)",
    "PREPARE TRANSACTION": "BEGIN; SELECT 1; PREPARE TRANSACTION 'kept'",
    "pg_terminate_backend": "SELECT pg_terminate_backend(0)",
}
REFUSED_SINCE_17 = ("REINDEX",)


@dataclass(frozen=True)
class Tenant:
    server: Server
    password: Secret

    def run(self, *statements: str, options: str = "") -> None:
        with connect(self.server, self.password, sslmode="prefer", options=options) as connection:
            for statement in statements:
                if statement.startswith("COPY"):
                    with connection.cursor().copy(statement.encode()):
                        pass
                else:
                    connection.execute(statement.encode())


@pytest.fixture(scope="module", params=[one.major for one in find_installations().found])
def tenant(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Tenant]:
    """The admin of a service, of each installed PostgreSQL in turn."""
    password = new_password()
    server = new_server(servers, password, pg_major=request.param)
    boot(servers, server)
    servers.secure(server, newborn=True, quiet=False)
    servers.open(server)
    made = Tenant(server, password)
    made.run(
        "CREATE TABLE orders (id serial PRIMARY KEY, title text)",
        "INSERT INTO orders (title) SELECT 'order ' || n FROM generate_series(1, 10) n",
        "CREATE MATERIALIZED VIEW titles AS SELECT title FROM orders",
        "CREATE PROCEDURE clear() LANGUAGE sql AS 'DELETE FROM orders'",
        "SELECT lo_create(4242)",
    )
    yield made
    servers.remove(server.service_id, 10)


def named(section: str) -> list[str]:
    """Return the statements that a section of the page names first in its sentences or in the rows of its table."""
    text = PAGE.read_text().partition(f"## {section}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    source = " ".join(rows) if rows else text.partition("None of these helps")[0]
    return [name for name in re.findall(r"`([^`]+)`", source) if name != "tsdbadmin"]


def test_the_page_names_what_is_tried_here() -> None:
    assert named("What holds") == list(REFUSED)
    assert named("What remains possible, and why") == list(POSSIBLE)


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_page_calls_refused_is_refused(tenant: Tenant, name: str) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        tenant.run("SET default_transaction_read_only = off", REFUSED[name], options=READ_ONLY)


def test_what_the_page_calls_possible_is_possible(tenant: Tenant) -> None:
    """In the order of the page, for what is dropped was created before."""
    refused = REFUSED_SINCE_17 if tenant.server.pg_major >= 17 else ()
    for name, statement in POSSIBLE.items():
        statements = ["SET default_transaction_read_only = off", statement]
        if name in refused:
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                tenant.run(*statements, options=READ_ONLY)
        else:
            tenant.run(*statements, options=READ_ONLY)
