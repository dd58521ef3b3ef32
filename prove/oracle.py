"""What a fork must hold, asked of the databases themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString, Protocol

import psycopg
from psycopg import sql

_TABLES = ("ledger", "pgbench_history")
_TRANSACTIONS = "SELECT xmin::text::bigint FROM {} WHERE pg_xact_commit_timestamp(xmin) <= %s"
_ALL = "SELECT xmin::text::bigint FROM {}"
_SUMS = """
    SELECT (SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
           (SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
"""


class Database(Protocol):
    """What can be asked."""

    def connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        """Connect as the admin."""


@dataclass(frozen=True)
class Difference:
    """Transactions that a fork should hold and does not, or holds and should not."""

    missing: frozenset[int]
    surplus: frozenset[int]

    @property
    def count(self) -> int:
        """The error, in transactions."""
        return len(self.missing) + len(self.surplus)


def transactions_until(parent: Database, restore_time: datetime, tables: Sequence[str] = _TABLES) -> frozenset[int]:
    """Return the transactions whose commit timestamp is not after a time, according to the parent."""
    return _transactions(parent, _TRANSACTIONS, tables, (restore_time,))


def all_transactions(fork: Database, tables: Sequence[str] = _TABLES) -> frozenset[int]:
    """Return all transactions that a fork holds."""
    return _transactions(fork, _ALL, tables, ())


def _transactions(
    database: Database, query: LiteralString, tables: Sequence[str], values: Sequence[object]
) -> frozenset[int]:
    with database.connect() as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        queries = [sql.SQL(query).format(sql.Identifier(table)) for table in tables]
        return frozenset(int(str(xid)) for one in queries for (xid,) in connection.execute(one, values).fetchall())


def compare(expected: frozenset[int], found: frozenset[int]) -> Difference:
    """Return how two sets of transactions differ."""
    return Difference(expected - found, found - expected)


def sums_agree(fork: Database) -> bool:
    """Tell whether pgbench's four sums are the same number."""
    with fork.connect() as connection:
        row = connection.execute(_SUMS).fetchone()
    return row is not None and len(set(row)) == 1


def ledger_rows(fork: Database) -> list[int]:
    """Return the numbers in the ledger."""
    with fork.connect() as connection:
        return [int(str(n)) for (n,) in connection.execute("SELECT n FROM ledger ORDER BY n").fetchall()]
