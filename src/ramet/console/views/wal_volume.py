"""How much WAL was written when: as sampled, and where there are no samples, spread evenly between two snapshots."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from ramet.control.metrics import Growth
from ramet.model.snapshot import Snapshot, lsn_number


@dataclass(frozen=True)
class WalVolume:
    """The WAL written in a period; `measured` says that it was sampled and is not an average over a longer one."""

    begins_at: datetime
    ends_at: datetime
    size_bytes: float
    measured: bool

    @property
    def seconds(self) -> float:
        """The length of the period."""
        return (self.ends_at - self.begins_at).total_seconds()

    def within(self, begins_at: datetime, ends_at: datetime) -> "WalVolume | None":
        """Return the part within another period; None when there is none."""
        begin, end = max(self.begins_at, begins_at), min(self.ends_at, ends_at)
        if end <= begin:
            return None
        share = (end - begin) / (self.ends_at - self.begins_at)
        return WalVolume(begin, end, self.size_bytes * share, self.measured)


def wal_volume_over_time(
    snapshots: Sequence[Snapshot], growth: Sequence[Growth], since_newest: int | None, latest: datetime
) -> list[WalVolume]:
    """Return the volumes, oldest first. `snapshots` are oldest first; `since_newest` bytes follow the newest one.

    The total between two snapshots is known from their LSNs; samples say when it was written.
    """
    measured = [WalVolume(one.begins_at, one.ends_at, one.size_bytes, True) for one in growth]
    if not snapshots:
        return measured
    ends = [(one.taken_at, lsn_number(one.end_lsn)) for one in snapshots]
    if since_newest is not None:
        ends.append((latest, ends[-1][1] + since_newest))
    found = [one for one in measured if one.ends_at <= ends[0][0]]
    for (begin, before), (end, after) in pairwise(ends):
        sampled = [one for one in measured if begin <= one.begins_at and one.ends_at <= end]
        found += _filled(sampled, begin, end, after - before)
    return found + [one for one in measured if one.begins_at >= ends[-1][0]]


def _filled(sampled: Sequence[WalVolume], begin: datetime, end: datetime, total: int) -> list[WalVolume]:
    """Return the samples of a period, and the rest of its total spread over the time without samples."""
    rest = max(0.0, total - sum(one.size_bytes for one in sampled))
    holes = list(_holes(sampled, begin, end)) if rest else []
    seconds = sum((until - since).total_seconds() for since, until in holes)
    even = [WalVolume(since, until, rest * (until - since).total_seconds() / seconds, False) for since, until in holes]
    return sorted([*sampled, *even], key=lambda one: one.begins_at)


def _holes(sampled: Sequence[WalVolume], begin: datetime, end: datetime) -> Iterable[tuple[datetime, datetime]]:
    for one in sampled:
        if begin < one.begins_at:
            yield begin, one.begins_at
        begin = one.ends_at
    if begin < end:
        yield begin, end
