"""The time line of a restore window: where its snapshots, gaps and writes lie. Pure geometry, drawn by a template."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from math import sqrt

from ramet.model.snapshot import Snapshot, lsn_number
from ramet.model.window import RestoreWindow

WIDTH = 1000.0
HEIGHT = 56.0
_NARROWEST = 1.5
SPANS = ((None, "all"), (86_400, "day"), (3600, "hour"), (600, "10 minutes"), (60, "minute"))


@dataclass(frozen=True)
class Bar:
    """Writes between two moments: the height tells bytes a second, on a square-root scale."""

    x: float
    width: float
    height: float
    size_bytes: int


@dataclass(frozen=True)
class Mark:
    """A snapshot."""

    x: float
    snapshot: Snapshot


@dataclass(frozen=True)
class Stretch:
    """Moments that cannot be had."""

    x: float
    width: float
    reason: str


@dataclass(frozen=True)
class Timeline:
    """A drawn stretch of a restore window; `earliest` and `latest` are its ends."""

    earliest: datetime
    latest: datetime
    bars: Sequence[Bar]
    marks: Sequence[Mark]
    gaps: Sequence[Stretch]
    span_seconds: int | None

    @property
    def middle(self) -> datetime:
        """The moment in the middle."""
        return self.earliest + (self.latest - self.earliest) / 2

    @property
    def first_milli(self) -> int:
        """The first whole millisecond that can be had, since the epoch."""
        return int(self.earliest.timestamp() * 1000) + 1

    @property
    def last_milli(self) -> int:
        """The last whole millisecond, since the epoch."""
        return max(self.first_milli, int(self.latest.timestamp() * 1000))

    @property
    def spans(self) -> Sequence[tuple[int | None, str]]:
        """The stretches to choose from that are shorter than the window."""
        whole = (self.latest - self.earliest).total_seconds()
        return [span for span in SPANS if span[0] is None or span[0] < whole or span[0] == self.span_seconds]


def draw(window: RestoreWindow, written_bytes: int | None, span_seconds: int | None) -> Timeline | None:
    """Return the time line of a window, or of its last `span_seconds`; None when there is nothing to go back to."""
    if window.earliest is None or window.latest is None or window.latest <= window.earliest:
        return None
    earliest = window.earliest
    if span_seconds is not None:
        earliest = max(earliest, window.latest - timedelta(seconds=span_seconds))
    scale = _Scale(earliest, window.latest)
    snapshots = sorted(window.snapshots, key=lambda one: one.taken_at)
    return Timeline(
        earliest,
        window.latest,
        _bars(scale, snapshots, written_bytes),
        [Mark(scale.x(one.taken_at), one) for one in snapshots if one.taken_at >= earliest],
        [
            Stretch(scale.x(gap.begins_at), max(_NARROWEST, scale.width(gap.begins_at, gap.ends_at)), gap.reason)
            for gap in window.gaps
            if gap.ends_at is None or gap.ends_at > earliest
        ],
        span_seconds,
    )


@dataclass(frozen=True)
class _Scale:
    earliest: datetime
    latest: datetime

    def x(self, at: datetime) -> float:
        """Return the place of a moment, within the drawing."""
        place = WIDTH * ((at - self.earliest) / (self.latest - self.earliest))
        return round(min(WIDTH, max(0.0, place)), 2)

    def width(self, begins_at: datetime, ends_at: datetime | None) -> float:
        return round(self.x(ends_at or self.latest) - self.x(begins_at), 2)


def _bars(scale: _Scale, snapshots: Sequence[Snapshot], written_bytes: int | None) -> list[Bar]:
    written = [
        (before.taken_at, after.taken_at, lsn_number(after.end_lsn) - lsn_number(before.end_lsn))
        for before, after in pairwise(snapshots)
    ]
    if snapshots and written_bytes is not None:
        written.append((snapshots[-1].taken_at, scale.latest, written_bytes))
    rates = [size / max((end - begin).total_seconds(), 1e-3) for begin, end, size in written]
    highest = max(rates, default=0.0)
    return [
        Bar(scale.x(begin), width, round(HEIGHT * sqrt(rate / highest), 2), size)
        for (begin, end, size), rate in zip(written, rates, strict=True)
        if size > 0 and (width := scale.width(begin, end)) > 0
    ]
