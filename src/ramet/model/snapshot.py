"""Snapshots of a service, and the restore window that they open."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class SnapshotKind(StrEnum):
    """Why a snapshot was made."""

    INITIAL = "INITIAL"
    SCHEDULED = "SCHEDULED"
    MANUAL = "MANUAL"


@dataclass(frozen=True)
class Snapshot:
    """A self-contained image of a service: data files and the WAL that makes them consistent.

    `taken_at` is when the image was complete by the server's clock: every transaction that it holds committed before.
    `start_lsn` and `end_lsn` bound the WAL it needs ('0/3000028'); `next_xid` tells whether anything was written since.
    """

    id: str
    service_id: str
    kind: SnapshotKind
    taken_at: datetime
    start_lsn: str
    end_lsn: str
    timeline: int
    next_xid: int
    size_bytes: int
    name: str | None = None


def newest(snapshots: list[Snapshot]) -> Snapshot | None:
    """Return the newest snapshot, or None."""
    return max(snapshots, key=lambda snapshot: snapshot.taken_at, default=None)


def rollable(snapshots: list[Snapshot]) -> list[Snapshot]:
    """Return the snapshots whose WAL is kept: from the oldest one on that was not made by hand.

    A manual snapshot that outlived its window is a state of its own; nothing leads on from it.
    """
    automatic = [snapshot.taken_at for snapshot in snapshots if snapshot.kind is not SnapshotKind.MANUAL]
    return [snapshot for snapshot in snapshots if automatic and snapshot.taken_at >= min(automatic)]


def base_for(snapshots: list[Snapshot], target: datetime) -> Snapshot | None:
    """Return the newest snapshot that was complete at `target`, from which recovery can reach it; or None."""
    return newest([snapshot for snapshot in rollable(snapshots) if snapshot.taken_at <= target])


def retired(snapshots: list[Snapshot], now: datetime, window: timedelta) -> list[Snapshot]:
    """Return the snapshots that nobody needs any more: those older than the window's base, and the dense old ones.

    Of the last hour all are kept, of the last day one an hour, of older days one a day: recovery of an older moment
    takes longer, but is possible. Manual snapshots stay until they are deleted.
    """
    automatic = [s for s in snapshots if s.kind is not SnapshotKind.MANUAL]
    base = base_for(automatic, now - window)
    kept: dict[tuple[str, int], Snapshot] = {}
    for snapshot in sorted(automatic, key=lambda s: s.taken_at):
        if base is None or snapshot.taken_at >= base.taken_at:
            kept.setdefault(_slot(snapshot, now), snapshot)
    needed = {snapshot.id for snapshot in kept.values()} | {s.id for s in (base, newest(automatic)) if s is not None}
    return [snapshot for snapshot in automatic if snapshot.id not in needed]


def _slot(snapshot: Snapshot, now: datetime) -> tuple[str, int]:
    """Return the slot of time in which only the oldest snapshot is kept."""
    age = now - snapshot.taken_at
    if age < timedelta(hours=1):
        return snapshot.id, 0
    step = timedelta(hours=1) if age < timedelta(days=1) else timedelta(days=1)
    return str(step), int(snapshot.taken_at.timestamp() // step.total_seconds())


def lsn_number(lsn: str) -> int:
    """Return an LSN in PostgreSQL's notation as a number of bytes."""
    high, low = lsn.split("/")
    return (int(high, 16) << 32) | int(low, 16)
