"""How much WAL a planned fork replays, and about how long it takes."""

from dataclasses import dataclass
from datetime import datetime
from statistics import median

import sqlalchemy as sa

from ramet.control.forks import ForkPlan
from ramet.control.plane import Plane
from ramet.control.restore import written_bytes
from ramet.model.fork import ForkStrategy
from ramet.model.procedures import ProcedureName
from ramet.model.snapshot import Snapshot, in_wal_order, lsn_number, newest
from ramet.store import operations

_REDO_BYTES_A_SECOND = 120e6
_UNMEASURED_SECONDS = 0.5
_MEASURED = 20


@dataclass(frozen=True)
class Estimate:
    """What a fork would cost. `wal_bytes` is the WAL to replay; None where none is replayed, or it is unknown."""

    wal_bytes: int | None
    seconds: float


def estimate_fork(plane: Plane, plan: ForkPlan) -> Estimate:
    """Estimate the WAL that a planned fork replays, and how long it takes until it is READY."""
    point, known = plan.point, list(plan.known.snapshots)
    with plane.store.read() as tx:
        typical = _typical_seconds(tx, plan.parent.project_id)
    wal_bytes = None
    if point.base is not None and point.target is not None:
        written = written_bytes(plane, plan.parent, newest(known))
        wal_bytes = wal_between(known, point.base, point.target, written, plane.clock())
    return Estimate(wal_bytes, typical + (wal_bytes or 0) / _REDO_BYTES_A_SECOND)


def wal_between(
    known: list[Snapshot], base: Snapshot, target: datetime, written: int | None, now: datetime
) -> int | None:
    """Estimate the WAL from a base to a target, as if WAL were written evenly between two snapshots."""
    after = next((one for one in in_wal_order(known) if one.wal_order > base.wal_order), None)
    if after is None:
        total, ends_at = written, now
    else:
        total, ends_at = lsn_number(after.end_lsn) - lsn_number(base.end_lsn), after.taken_at
    length = (ends_at - base.taken_at).total_seconds()
    if total is None or length <= 0:
        return total
    return round(total * min(1.0, (target - base.taken_at).total_seconds() / length))


def _typical_seconds(tx: sa.Connection, project_id: str) -> float:
    """Return the median of what the last forks as of now took, from request to READY."""
    measured = operations.durations(tx, ProcedureName.FORK, {"strategy": ForkStrategy.NOW.value}, project_id, _MEASURED)
    return median(measured) if measured else _UNMEASURED_SECONDS
