"""What a serving server does: its sessions, and the statements that it has spent its time on."""

from collections.abc import Sequence
from dataclasses import dataclass
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
