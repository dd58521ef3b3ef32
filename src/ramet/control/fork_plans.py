"""What a fork would be, before anything is done: the restore point, the WAL to replay, and about how long it takes."""

from dataclasses import dataclass
from datetime import datetime
from statistics import median

import sqlalchemy as sa

from ramet.control.forks import decide
from ramet.control.plane import Plane
from ramet.control.requests import ForkRequest
from ramet.control.restore import written_bytes
from ramet.model.fork import ForkStrategy
from ramet.model.procedures import ProcedureName
from ramet.model.restore_point import RestorePoint
from ramet.model.service import Service
from ramet.model.snapshot import Snapshot, in_wal_order, lsn_number, newest
from ramet.store import operations, snapshots

_REDO_BYTES_A_SECOND = 120e6
_UNMEASURED_SECONDS = 0.5
_MEASURED = 20


@dataclass(frozen=True)
class ForkPlan:
    """A fork that was not asked for yet. `wal_bytes` is an estimate; None where no WAL is replayed, or unknown."""

    fork: Service
    point: RestorePoint
    wal_bytes: int | None
    seconds: float


def plan_fork(plane: Plane, project_id: str, service_id: str, request: ForkRequest) -> ForkPlan:
    """Check a fork request as if it were made, and tell what would come of it. Raises what the request would."""
    plan = decide(plane, project_id, service_id, request)
    parent, point = plan.parent, plan.point
    with plane.store.read() as tx:
        known = snapshots.list_snapshots(tx, parent.id)
        typical = _typical_seconds(tx, project_id)
    wal_bytes = None
    if point.base is not None and point.target is not None:
        written = written_bytes(plane, parent, newest(known))
        wal_bytes = wal_between(known, point.base, point.target, written, plane.clock())
    return ForkPlan(plan.child, point, wal_bytes, typical + (wal_bytes or 0) / _REDO_BYTES_A_SECOND)


def wal_between(
    known: list[Snapshot], base: Snapshot, target: datetime, written: int | None, now: datetime
) -> int | None:
    """Estimate the WAL from a base to a moment: between two snapshots it is taken as written evenly."""
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
    """Return the median of what the last forks of now took here, from request to READY."""
    measured = operations.durations(tx, ProcedureName.FORK, {"strategy": ForkStrategy.NOW.value}, project_id, _MEASURED)
    return median(measured) if measured else _UNMEASURED_SECONDS
