"""What a transaction has changed, for those who record it in the same transaction, right before it commits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa

_KEY = "ramet_journal"


class Submitted(NamedTuple):
    """An operation that was submitted."""

    operation_id: str
    procedure: str
    subject: str


class Ended(NamedTuple):
    """An operation that succeeded or failed."""

    operation_id: str
    procedure: str
    subject: str
    error: str | None


@dataclass
class Journal:
    """The changes of one transaction. `changed` are columns of services as they were set, by the service's id.

    `after_commit` is called when the transaction is committed, and not when it is rolled back.
    """

    submitted: list[Submitted] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    changed: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    after_commit: list[Callable[[], None]] = field(default_factory=list)


Recorder = Callable[[sa.Connection, Journal], None]
"""Records a transaction in itself. Other locks are held by now: it locks nothing but what only recorders lock, and the
keys of webhooks, for which only their deletion makes it wait."""


def begin(tx: sa.Connection) -> Journal:
    """Begin the journal of a transaction."""
    journal = Journal()
    tx.info[_KEY] = journal
    return journal


def end(tx: sa.Connection) -> None:
    """Forget the journal of a transaction: its connection is used again."""
    tx.info.pop(_KEY, None)


def journal_of(tx: sa.Connection) -> Journal:
    """Return the journal of a transaction; what is written in that of one that only reads is read by nobody."""
    found: Journal = tx.info.get(_KEY) or Journal()
    return found
