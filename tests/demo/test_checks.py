"""The demo's checks can fail: each finds the fault that it is there for."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from demo import checks
from demo.stage import DemoFailed
from demo.workload import Address
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql.connections import PLATFORM_ROLE
from tests.backends.local.hosts import boot, make_servers, new_server

_TABLES = (
    "CREATE TABLE ledger (n bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp());"
    "CREATE TABLE pgbench_accounts AS SELECT 5 AS abalance; CREATE TABLE pgbench_tellers AS SELECT 5 AS tbalance;"
    "CREATE TABLE pgbench_branches AS SELECT 5 AS bbalance; CREATE TABLE pgbench_history AS SELECT 5 AS delta"
)


@dataclass(frozen=True)
class Private(Address):
    """A schema of a server that is reached by its private socket."""

    schema: str = ""

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        options = f"-c search_path={self.schema}"
        return psycopg.connect(
            host=self.host, port=self.port, user=PLATFORM_ROLE, dbname="postgres", options=options, autocommit=True
        )


@pytest.fixture(scope="module")
def instances() -> Iterator[Instances]:
    with make_servers() as made:
        yield made


@pytest.fixture(scope="module")
def pair(instances: Instances) -> Iterator[tuple[Private, Private]]:
    """A parent with rows 1 to 3, and what is to be its fork."""
    server = new_server(instances)
    boot(instances, server)
    sockets = str(instances.paths(server.service_id).sockets)
    parent, fork = (Private(sockets, server.port, "", "", schema) for schema in ("parent", "fork"))
    for one in (parent, fork):
        with one.connect() as connection:
            connection.execute(f"CREATE SCHEMA {one.schema}")
            connection.execute(_TABLES)
    yield parent, fork
    instances.remove(server.service_id, 10)


@pytest.fixture(autouse=True)
def rows(pair: tuple[Private, Private]) -> None:
    with pair[0].connect() as connection:
        connection.execute("TRUNCATE ledger, fork.ledger, fork.pgbench_accounts")
        connection.execute("INSERT INTO fork.pgbench_accounts VALUES (5)")
        connection.execute("INSERT INTO ledger (n) VALUES (1), (2), (3)")
        connection.execute("INSERT INTO fork.ledger SELECT * FROM ledger")


def _spoil(fork: Private, statement: str) -> None:
    with fork.connect() as connection:
        connection.execute(statement)


def test_a_true_copy_passes(pair: tuple[Private, Private]) -> None:
    parent, fork = pair
    checks.holds_all_acknowledged(fork, 3)
    checks.holds_exactly_until(fork, parent, datetime.now(UTC))
    checks.holds_snapshot(fork, parent, datetime.now(UTC), 3)
    checks.agrees_with_parent(fork, parent)
    checks.lives_on_its_own(fork, parent)


def test_a_hole_is_found(pair: tuple[Private, Private]) -> None:
    _spoil(pair[1], "DELETE FROM ledger WHERE n = 2")
    with pytest.raises(DemoFailed, match="hole"):
        checks.rows_without_hole(pair[1])


def test_a_lost_row_is_found(pair: tuple[Private, Private]) -> None:
    parent, fork = pair
    _spoil(fork, "DELETE FROM ledger WHERE n = 3")
    with pytest.raises(DemoFailed, match="acknowledged"):
        checks.holds_all_acknowledged(fork, 3)
    with pytest.raises(DemoFailed, match="the fork has 2"):
        checks.holds_exactly_until(fork, parent, datetime.now(UTC))
    with pytest.raises(DemoFailed, match="not at 2"):
        checks.holds_snapshot(fork, parent, datetime.now(UTC), 3)


def test_a_row_too_many_is_found(pair: tuple[Private, Private]) -> None:
    parent, fork = pair
    before = datetime(2020, 1, 1, tzinfo=UTC)
    with pytest.raises(DemoFailed, match="committed 0 rows"):
        checks.holds_exactly_until(fork, parent, before)
    with pytest.raises(DemoFailed, match="between rows 0 and 0"):
        checks.holds_snapshot(fork, parent, before, 0)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("UPDATE ledger SET at = at + interval '1 us' WHERE n = 1", "differ from"),
        ("UPDATE pgbench_accounts SET abalance = 6", "torn"),
    ],
)
def test_content_that_differs_is_found(pair: tuple[Private, Private], spoil: str, said: str) -> None:
    parent, fork = pair
    _spoil(fork, spoil)
    with pytest.raises(DemoFailed, match=said):
        checks.agrees_with_parent(fork, parent)


def test_a_fork_that_is_its_parent_is_found(pair: tuple[Private, Private]) -> None:
    with pytest.raises(DemoFailed, match="appeared in the parent"):
        checks.lives_on_its_own(pair[0], pair[0])
