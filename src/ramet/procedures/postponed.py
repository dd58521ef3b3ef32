"""Until when snapshots on schedule and their preparation are postponed, because the last ones took long or failed."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from ramet.model.cadence import USUAL_SECONDS, rest_after
from ramet.model.procedures import ProcedureName
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.model.timestamps import time_left
from ramet.store import operations

_AFTER_FAILURE = timedelta(minutes=10)
_AT_MOST_AFTER_FAILURE = timedelta(hours=1)  # it may have waited for long, and only then failed


def next_snapshot_at(tx: sa.Connection, last: Snapshot) -> datetime | None:
    """Return when the next snapshot on schedule is taken at the earliest; None if `last` took as long as usual."""
    rest = rest_after(_seconds_of(tx, last.id))
    return last.taken_at + rest if rest else None


def time_until_retry(tx: sa.Connection, service_id: str, last: Snapshot | None, now: datetime) -> timedelta:
    """Return how long no snapshot is taken on schedule because one that was submitted after `last` has failed.

    Each attempt costs the server a checkpoint, and one that did not fit may not fit for days. Where the clock was set
    back, what is later than `now` was before it.
    """
    failed = operations.last_failed(tx, service_id, ProcedureName.SNAPSHOT, SnapshotKind.SCHEDULED, now)
    if failed is None or failed.finished_at is None or (last is not None and failed.created_at <= last.taken_at <= now):
        return timedelta(0)
    took = (failed.finished_at - failed.created_at).total_seconds()
    rest = min(max(_AFTER_FAILURE, rest_after(took)), _AT_MOST_AFTER_FAILURE)
    return time_left(failed.finished_at, rest, now)


def postponed_until(tx: sa.Connection, service_id: str, last: Snapshot | None, now: datetime) -> datetime | None:
    """Return until when no snapshot follows `last` on schedule, for either reason; None where it is not postponed.

    One that was taken later than `now` postpones none: after a step of the clock back the next one is due at once.
    """
    rested = None if last is None or last.taken_at > now else next_snapshot_at(tx, last)
    retried = now + time_until_retry(tx, service_id, last, now)
    until = max(retried, rested or retried)
    return until if until > now else None


def time_until_preparation(tx: sa.Connection, service_id: str, snapshot_id: str, now: datetime) -> timedelta:
    """Return how long a snapshot is not prepared yet.

    The history of preparations is read only where the snapshot took long: a template that is forked all day has a
    long one.
    """
    if not rest_after(_seconds_of(tx, snapshot_id)):
        return timedelta(0)
    last = operations.last_costly(tx, service_id, ProcedureName.PREPARE, "prepare", USUAL_SECONDS)
    return timedelta(0) if last is None else time_left(last.at, rest_after(last.seconds), now)


def _seconds_of(tx: sa.Connection, snapshot_id: str) -> float:
    """Return how long a snapshot took; 0 when another operation than `snapshot` took it, or none is known any more."""
    found = operations.get(tx, snapshot_id)
    return 0.0 if found is None else float(found.state.get("seconds", 0.0))
