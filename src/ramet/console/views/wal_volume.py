"""When how much was written: as samples measured it; where there are none, the rest between two snapshots evenly."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from ramet.control.metrics import Growth
from ramet.model.snapshot import Snapshot, lsn_number


@dataclass(frozen=True)
class WalVolume:
    """WAL that was written between two moments; `measured`: nothing finer is hidden behind an average."""

    begins_at: datetime
    ends_at: datetime
    size_bytes: float
    measured: bool

    @property
    def seconds(self) -> float:
        """How long that took."""
        return (self.ends_at - self.begins_at).total_seconds()

    def within(self, begins_at: datetime, ends_at: datetime) -> "WalVolume | None":
        """Return the part between two moments; None when there is none."""
        begin, end = max(self.begins_at, begins_at), min(self.ends_at, ends_at)
        if end <= begin:
            return None
        share = (end - begin) / (self.ends_at - self.begins_at)
        return WalVolume(begin, end, self.size_bytes * share, self.measured)


def wal_volume_over_time(
    snapshots: Sequence[Snapshot], growth: Sequence[Growth], since_newest: int | None, latest: datetime
) -> list[WalVolume]:
    """Return the writes in order of time. `snapshots` are oldest first; `since_newest` was written after the last.

    Between two snapshots the bytes are known exactly. Samples tell how they were spread, as far as they lie between.
    """
    measured = [WalVolume(one.begins_at, one.ends_at, one.size_bytes, True) for one in growth]
    if not snapshots:
        return measured
    ends = [(one.taken_at, lsn_number(one.end_lsn)) for one in snapshots]
    if since_newest is not None:
        ends.append((latest, ends[-1][1] + since_newest))
    found = [one for one in measured if one.ends_at <= ends[0][0]]
    for (begin, before), (end, after) in pairwise(ends):
        found += _filled(
            [one for one in measured if begin <= one.begins_at and one.ends_at <= end], begin, end, after - before
        )
    return found + [one for one in measured if one.begins_at >= ends[-1][0]]


def _filled(parts: Sequence[WalVolume], begin: datetime, end: datetime, total: int) -> list[WalVolume]:
    """Return what was measured between two moments, and what is missing to the total, spread over the holes."""
    rest = max(0.0, total - sum(part.size_bytes for part in parts))
    holes = list(_holes(parts, begin, end))
    seconds = sum((until - since).total_seconds() for since, until in holes)
    even = [
        WalVolume(since, until, rest * (until - since).total_seconds() / seconds, False)
        for since, until in holes
        if rest
    ]
    return sorted([*parts, *even], key=lambda part: part.begins_at)


def _holes(parts: Sequence[WalVolume], begin: datetime, end: datetime) -> Iterable[tuple[datetime, datetime]]:
    for part in parts:
        if begin < part.begins_at:
            yield begin, part.begins_at
        begin = part.ends_at
    if begin < end:
        yield begin, end
