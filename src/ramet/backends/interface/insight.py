"""What a serving server does: its sessions, the statements that took its time, and what fills its databases."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ramet.backends.interface.values import Server


@dataclass(frozen=True)
class TopStatement:
    """A statement as pg_stat_statements has it since it was reset; times are in milliseconds."""

    text: str
    database: str
    role: str | None
    calls: int
    total_ms: float
    mean_ms: float
    rows: int
    blocks_hit: int
    blocks_read: int


@dataclass(frozen=True)
class Session:
    """A session of pg_stat_activity. `blocked_by` are the sessions whose locks it waits for; 0: a prepared transaction.

    `text` is the statement that it runs, or ran last. None where a session has no such value.
    """

    pid: int
    kind: str
    database: str | None
    role: str | None
    application: str | None
    address: str | None
    state: str | None
    waits_for: str | None
    blocked_by: Sequence[int]
    transaction_seconds: float | None
    state_seconds: float | None
    text: str | None


@dataclass(frozen=True)
class Table:
    """A table or materialized view with its estimated rows, None if there is no estimate.

    Sizes are None while somebody holds or awaits a lock that they would have to be waited for.
    """

    schema: str
    name: str
    total_bytes: int | None
    heap_bytes: int | None
    indexes_bytes: int | None
    toast_bytes: int | None
    rows: int | None
    dead_rows: int
    vacuumed_at: datetime | None
    analyzed_at: datetime | None


@dataclass(frozen=True)
class UnusedIndex:
    """An index that no scan has used, and that no constraint needs. Its size is None as that of a table."""

    schema: str
    table: str
    name: str
    size_bytes: int | None


@dataclass(frozen=True)
class Tables:
    """What fills a database, the largest first. Scans of indexes are counted since `counted_since`.

    Unless `is_complete` there are so many tables that only the largest by the last VACUUM or ANALYZE were measured.
    """

    database: str
    tables: Sequence[Table]
    unused_indexes: Sequence[UnusedIndex]
    counted_since: datetime | None
    is_complete: bool


class Insight(Protocol):
    """What servers tell of the statements of clients, without their constants."""

    def statements(self, server: Server, limit: int) -> Sequence[TopStatement]:
        """Return the statements that took most time in the tenants' database, at most `limit`.

        Raises Unavailable when the server cannot be asked in time, and WrongState when it does not count statements.
        """

    def activity(self, server: Server, limit: int) -> Sequence[Session]:
        """Return at most `limit` sessions: those that wait for locks, those that they wait for, then all others.

        Raises Unavailable when the server cannot be asked in time.
        """

    def tables(self, server: Server, database: str, limit: int) -> Tables:
        """Return at most `limit` tables of a database, and as many unused indexes; what is locked is not waited for.

        Raises NotFound when it is no database that clients can use, and Unavailable as the others.
        """
