"""Snapshots of a service, and the restore window that they open."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise, takewhile

_LSN = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")


class SnapshotKind(StrEnum):
    """Why a snapshot was made."""

    INITIAL = "INITIAL"
    SCHEDULED = "SCHEDULED"
    MANUAL = "MANUAL"


class PlacedInWal:
    """What ends at a place in the WAL of a service: a snapshot, or a base backup in the off-host archive."""

    taken_at: datetime
    end_lsn: str
    timeline: int

    @property
    def wal_order(self) -> tuple[int, int, datetime]:
        """Return what orders those of a service: clocks may go back, WAL does not.

        The time decides where nothing was written.
        """
        return self.timeline, lsn_number(self.end_lsn), self.taken_at


@dataclass(frozen=True)
class Snapshot(PlacedInWal):
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


@dataclass(frozen=True)
class ClockStep:
    """The clock of a service was set back: of two consecutive snapshots the later one has the earlier time."""

    before: datetime
    after: datetime


def in_wal_order(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """Return the snapshots of a service in the order of the WAL."""
    return sorted(snapshots, key=lambda snapshot: snapshot.wal_order)


def clock_steps(snapshots: Iterable[Snapshot]) -> list[ClockStep]:
    """Return the steps back of the service's clock that its snapshots show."""
    pairs = pairwise(in_wal_order(snapshots))
    return [ClockStep(one.taken_at, next_one.taken_at) for one, next_one in pairs if next_one.taken_at < one.taken_at]


def newest(snapshots: list[Snapshot]) -> Snapshot | None:
    """Return the newest snapshot by the WAL, or None."""
    return max(snapshots, key=lambda snapshot: snapshot.wal_order, default=None)


def named(snapshots: Iterable[Snapshot], wanted: str) -> Snapshot | None:
    """Return the snapshot with an id, or else the newest that was taken by hand with that name; None without one."""
    known = list(snapshots)
    by_name = [one for one in known if one.kind is SnapshotKind.MANUAL and one.name == wanted]
    return next((one for one in known if one.id == wanted), newest(by_name))


def worth_preparing(snapshots: list[Snapshot]) -> set[str]:
    """Return the ids of the snapshots that are likely to be copied next: the newest one, and the newest by hand."""
    by_hand = [snapshot for snapshot in snapshots if snapshot.kind is SnapshotKind.MANUAL]
    return {found.id for found in (newest(snapshots), newest(by_hand)) if found is not None}


def rollable(snapshots: list[Snapshot]) -> list[Snapshot]:
    """Return the snapshots whose WAL is kept: from the oldest one on that was not made by hand.

    From a manual snapshot that is older than the restore window, no recovery target can be reached.
    """
    automatic = [snapshot.wal_order for snapshot in snapshots if snapshot.kind is not SnapshotKind.MANUAL]
    return [snapshot for snapshot in snapshots if automatic and snapshot.wal_order >= min(automatic)]


def base_for(snapshots: list[Snapshot], target: datetime) -> Snapshot | None:
    """Return the last snapshot by the WAL that was complete at `target`, from which recovery can reach it; or None."""
    return newest([snapshot for snapshot in rollable(snapshots) if snapshot.taken_at <= target])


def retired(snapshots: list[Snapshot], now: datetime, window: timedelta, *, is_sparing: bool = False) -> list[Snapshot]:
    """Return the snapshots that are no longer needed: those older than the window's base, and the dense old ones.

    Of the last hour all are kept, of the last day one an hour, of older days one a day: recovery to an older time
    takes longer, but is possible. With `is_sparing` one is kept if at least as much WAL as it has data lies between it
    and the one that is kept before it. Manual snapshots stay until they are deleted.
    """
    automatic = [s for s in snapshots if s.kind is not SnapshotKind.MANUAL]
    base = _base_of_window(automatic, now - window, now)
    reachable = [s for s in in_wal_order(automatic) if base is None or s.wal_order >= base.wal_order]
    kept = _far_apart(reachable) if is_sparing else _one_of_each_slot(reachable, now)
    needed = {snapshot.id for snapshot in kept} | {s.id for s in (base, newest(automatic)) if s is not None}
    return [snapshot for snapshot in automatic if snapshot.id not in needed]


def _one_of_each_slot(ordered: list[Snapshot], now: datetime) -> Iterable[Snapshot]:
    kept: dict[tuple[int, str, int], Snapshot] = {}
    for snapshot in ordered:
        kept.setdefault(_slot(snapshot, now), snapshot)
    return kept.values()


def _far_apart(ordered: list[Snapshot]) -> list[Snapshot]:
    """Return the first one, those at which the clock went back or the timeline changed, and those after much WAL."""
    kept = ordered[:1]
    for before, snapshot in pairwise(ordered):
        written_bytes = lsn_number(snapshot.end_lsn) - lsn_number(kept[-1].end_lsn)
        is_break = snapshot.taken_at < before.taken_at or snapshot.timeline != kept[-1].timeline
        if is_break or written_bytes >= snapshot.size_bytes:
            kept.append(snapshot)
    return kept


def _base_of_window(automatic: list[Snapshot], begins_at: datetime, now: datetime) -> Snapshot | None:
    """Return the last snapshot before the window, or None.

    One that follows a snapshot of the window in the WAL is in the window, too: its clock was behind.
    """
    earlier = takewhile(lambda one: not begins_at < one.taken_at <= now, in_wal_order(automatic))
    return newest([snapshot for snapshot in earlier if snapshot.taken_at <= begins_at])


def _slot(snapshot: Snapshot, now: datetime) -> tuple[int, str, int]:
    """Return the slot of time, on its timeline, in which only the oldest snapshot is kept.

    Recovery from a snapshot of an earlier timeline ends where that was left: it never reaches a later one.
    """
    age = now - snapshot.taken_at
    if age < timedelta(hours=1):
        return snapshot.timeline, snapshot.id, 0
    step = timedelta(hours=1) if age < timedelta(days=1) else timedelta(days=1)
    return snapshot.timeline, str(step), int(snapshot.taken_at.timestamp() // step.total_seconds())


def is_lsn(text: str) -> bool:
    """Tell whether a text is an LSN in PostgreSQL's notation, such as 16/B374D848."""
    return _LSN.fullmatch(text) is not None


def lsn_number(lsn: str) -> int:
    """Return an LSN in PostgreSQL's notation as a number of bytes."""
    high, low = lsn.split("/")
    return (int(high, 16) << 32) | int(low, 16)
