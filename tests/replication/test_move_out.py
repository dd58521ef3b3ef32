"""The commands of docs/move-out.md bring a service to a server outside of Ramet, as they stand there."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from harness.instance import Instance, connect
from harness.waiting import eventually
from ramet.machine.installation import find_installations
from tests.sources import OWNER, PASSWORD, Source, open_source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
_PAGE = Path(__file__).parents[2] / "docs" / "move-out.md"
_PROGRAMS = Path(__file__).parents[2] / ".venv" / "bin"
_SCHEMA = """
CREATE TABLE customers (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL);
CREATE TABLE "Odd name" (id bigserial PRIMARY KEY, customer int REFERENCES customers, amount numeric);
CREATE TABLE events (at date, note text, PRIMARY KEY (at, note)) PARTITION BY RANGE (at);
CREATE TABLE events_of_2026 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE without_key (n int);
INSERT INTO customers (name) SELECT 'customer ' || n FROM generate_series(1, 200) n;
INSERT INTO "Odd name" (customer, amount) SELECT n, n * 1.5 FROM generate_series(1, 200) n;
INSERT INTO events SELECT '2026-03-01'::date + n, 'note ' || n FROM generate_series(1, 100) n;
INSERT INTO without_key VALUES (1);
CREATE UNLOGGED TABLE cache AS SELECT 1 AS n;
CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM customers;
"""
_CHANGES = """
INSERT INTO customers (name) SELECT 'later ' || n FROM generate_series(1, 50) n;
UPDATE "Odd name" SET amount = amount + 1 WHERE id % 2 = 0;
DELETE FROM "Odd name" WHERE id % 7 = 0;
INSERT INTO events VALUES ('2026-11-11', 'a later note');
INSERT INTO without_key VALUES (2);
"""
_TABLES = ("customers", '"Odd name"', "events", "without_key")
Rows = dict[str, list[tuple[object, ...]]]


def commands() -> list[str]:
    """Return the commands of the page in their order."""
    return [block.strip() for block in re.findall(r"```sh\n(.*?)```", _PAGE.read_text(), re.DOTALL)]


def rows_of(connection: "psycopg.Connection[tuple[object, ...]]") -> Rows:
    return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1".encode()).fetchall() for table in _TABLES}


class Shop:
    """A service with rows, and the person who moves it."""

    def __init__(self, ramet: Instance, directory: Path) -> None:
        self._ramet, self._directory = ramet, directory
        self.made = json.loads(self.type("ramet service create shop -o json"))
        with self.connect() as connection:
            connection.execute(_SCHEMA.encode())

    def type(self, command: str) -> str:
        """Run a command as a person types it, and return what it prints."""
        done = self._ramet.run_shell(command, self._directory)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def refused(self, command: str) -> str:
        """Run a command that is refused, and return the reason."""
        done = self._ramet.run_shell(command, self._directory)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        return connect(self.made["endpoint"]["port"], self.made["initial_password"])


@pytest.fixture
def target() -> Iterator[Source]:
    """The server outside, of the version that speaks TLS to services."""
    with open_source(15) as made:
        yield made


@pytest.fixture
def shop(ramet: Instance, target: Source, tmp_path: Path) -> Iterator[Shop]:
    """The service of the page, with rows."""
    uri = f"postgresql://{OWNER}:{quote(PASSWORD.reveal())}@localhost:{target.port}/shop"
    path = f"{_PROGRAMS}:{find_installations().by_major[15].bin}:{os.environ['PATH']}"
    ramet.environment |= {"TARGET": uri, "PATH": path, "RAMET_CREDENTIALS_FILE": str(ramet.credentials_file)}
    made = Shop(ramet, tmp_path)
    try:
        yield made
    finally:
        made.type("ramet service delete shop --yes")


def test_a_dump_brings_the_service_to_another_server(shop: Shop, target: Source) -> None:
    for command in commands()[:1]:
        shop.type(command)
    with shop.connect() as inside, target.connect() as outside:
        assert rows_of(outside) == rows_of(inside)
        assert [outside.execute(query).fetchall() for query in ("TABLE cache", "TABLE totals")] == [[(1,)], [(200,)]]


def test_a_publication_brings_it_there_while_it_is_written(shop: Shop, target: Source) -> None:
    level, keys, schema, publish, subscribe, copied, stop, caught_up, sequences, back = commands()[1:]
    shop.type(level)
    assert "without_key" in shop.type(keys)
    for command in (schema, publish):
        shop.type(command)
    assert "already exists" in shop.refused(publish)
    assert shop.type(copied).strip() == "f"
    shop.type(subscribe)
    with shop.connect() as inside:
        inside.execute(_CHANGES.encode())
    eventually(lambda: shop.type(copied).strip() == "t", "the copy", 0.5)
    assert "move_out" in shop.type("ramet service replication shop")
    with shop.connect() as inside:
        inside.execute(_CHANGES.replace("11-11", "11-12").encode())
    shop.type(stop)
    with shop.connect() as inside, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        inside.execute("INSERT INTO without_key VALUES (3)")
    eventually(lambda: shop.type(caught_up).strip() == "t", "the target", 0.5)
    refused = shop.refused(back)
    assert "has the replication slots move_out" in refused
    shop.type(sequences)
    with shop.connect() as inside, target.connect() as outside:
        assert rows_of(outside) == rows_of(inside)
        assert outside.execute("TABLE cache").fetchall() == []
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            outside.execute("TABLE totals")
        outside.execute("REFRESH MATERIALIZED VIEW totals")
        assert outside.execute("TABLE totals").fetchall() == [(300,)]
        outside.execute("INSERT INTO customers (name) VALUES ('the first one outside')")
        outside.execute('INSERT INTO "Odd name" (customer, amount) VALUES (1, 1)')
    shop.type(back)
    with shop.connect() as inside:
        assert inside.execute("SHOW wal_level").fetchone() == ("replica",)
