"""How much WAL a planned fork replays, and about how long it takes."""

from dataclasses import dataclass
from datetime import datetime
from statistics import median

import sqlalchemy as sa

from ramet.backends.interface.values import BaseBackup
from ramet.control.forks import ForkPlan
from ramet.control.plane import Plane
from ramet.control.restore import written_bytes
from ramet.model.fork import ForkStrategy
from ramet.model.snapshot import Snapshot, in_wal_order, lsn_number, newest
from ramet.procedures.servers import server_of, source_of
from ramet.store import operations, services

_REDO_BYTES_A_SECOND = 120e6
_UNMEASURED_SECONDS = 0.5
_UNMEASURED_DOWNLOAD = 50e6  # bytes a second over a network, until it was measured
_MEASURED = 20


@dataclass(frozen=True)
class Estimate:
    """What a fork would cost. `wal_bytes` is the WAL to replay; None where none is replayed, or it is unknown.

    `download_bytes` come from the off-host archive, None: nothing; `download_rate` bytes a second, measured or assumed.
    `copied_bytes` are copied from the parent's server over the network; None where storage is shared.
    """

    wal_bytes: int | None
    seconds: float
    download_bytes: int | None = None
    download_rate: float = _UNMEASURED_DOWNLOAD
    copied_bytes: int | None = None


def estimate_fork(plane: Plane, plan: ForkPlan) -> Estimate:
    """Estimate the WAL that a planned fork replays, and how long it takes until it is READY."""
    point, known = plan.point, list(plan.known.snapshots)
    with plane.store.read() as tx:
        typical = _typical_seconds(tx, plan.parent.project_id)
        downloads = [] if plan.base_backup is None else services.downloads_of_forks(tx, _MEASURED)
    if plan.base_backup is not None:
        return _from_archive(plane, plan, plan.base_backup, typical, downloads)
    wal_bytes = None
    if point.base is not None and point.target is not None:
        written = written_bytes(plane, plan.parent, newest(known))
        wal_bytes = wal_between(known, point.base, point.target, written, plane.clock())
    copied_bytes = _copied_bytes(plane, plan)
    if copied_bytes is not None:
        typical = max(typical, copied_bytes / _UNMEASURED_DOWNLOAD)
    return Estimate(wal_bytes, typical + (wal_bytes or 0) / _REDO_BYTES_A_SECOND, copied_bytes=copied_bytes)


def _copied_bytes(plane: Plane, plan: ForkPlan) -> int | None:
    base_id = None if plan.point.base is None else plan.point.base.id
    return plane.backend.copies.size_bytes(source_of(plan.parent, base_id, plan.point.target))


def _from_archive(
    plane: Plane, plan: ForkPlan, base: BaseBackup, typical: float, downloads: list[tuple[int, float]]
) -> Estimate:
    """Estimate a fork from the off-host archive, as if WAL were written evenly between two base backups."""
    share = _share(plane, plan, base)
    size_bytes = base.download_bytes + round(share * base.wal_download_bytes)
    wal_bytes = round(share * base.wal_bytes)
    rate = median(size / took for size, took in downloads) if downloads else _UNMEASURED_DOWNLOAD
    seconds = typical + size_bytes / rate + wal_bytes / _REDO_BYTES_A_SECOND
    return Estimate(wal_bytes, seconds, size_bytes, rate)


def _share(plane: Plane, plan: ForkPlan, base: BaseBackup) -> float:
    """Return how much of the time from a base backup to the next one, or to the end, is before the target."""
    held, target = plan.known.archive, plan.point.target
    if held is None or target is None:
        return 1.0
    bases = plane.backend.archive.holdings(server_of(plan.parent)).base_backups
    later = [one.taken_at for one in bases if one.wal_order > base.wal_order]
    length = (min(later, default=held.latest) - base.taken_at).total_seconds()
    return min(1.0, (target - base.taken_at).total_seconds() / length) if length > 0 else 1.0


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
    measured = operations.durations_of_forks(tx, {"strategy": ForkStrategy.NOW.value}, project_id, _MEASURED)
    return median(measured) if measured else _UNMEASURED_SECONDS
