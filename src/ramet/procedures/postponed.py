"""Until when snapshots on schedule are postponed, because the last one took long."""

from datetime import datetime

import sqlalchemy as sa

from ramet.model.cadence import rest_after
from ramet.model.snapshot import Snapshot
from ramet.store import operations


def next_snapshot_at(tx: sa.Connection, last: Snapshot) -> datetime | None:
    """Return when the next snapshot on schedule is taken at the earliest; None if `last` took as long as usual."""
    rest = rest_after(_seconds_of(tx, last.id))
    return last.taken_at + rest if rest else None


def _seconds_of(tx: sa.Connection, snapshot_id: str) -> float:
    """Return how long a snapshot took; 0 when another operation than `snapshot` took it, or none is known any more."""
    found = operations.get(tx, snapshot_id)
    return 0.0 if found is None else float(found.state.get("seconds", 0.0))
