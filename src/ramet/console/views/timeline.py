"""The time line of a restore window: where its snapshots, gaps and writes lie. Pure geometry, drawn by a template."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from ramet.console.views.wal_volume import WalVolume
from ramet.model.snapshot import Snapshot
from ramet.model.window import RestoreWindow

WIDTH = 1000.0
HEIGHT = 56.0
_NARROWEST = 1.5
_FINEST = WIDTH / 250
_SHORT_SECONDS = 90.0
_SMALL = WIDTH / 50
SPANS = ((None, "all"), (86_400, "day"), (3600, "hour"), (600, "10 minutes"), (60, "minute"))


@dataclass(frozen=True)
class Bar:
    """Writes between two moments: the height tells bytes a second, on a square-root scale.

    Those that are not `measured` may have come at any time between the two, which lie far apart.
    """

    x: float
    width: float
    height: float
    size_bytes: float
    measured: bool


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
    def paths(self) -> Sequence[tuple[str, str]]:
        """The outlines of the bars as (kind, path), kinds being `even` and `measured`."""
        outlines = {
            kind: "".join(f"M{bar.x:g} {HEIGHT:g}V{HEIGHT - bar.height:g}h{bar.width:g}V{HEIGHT:g}z" for bar in bars)
            for kind, bars in (
                ("even", [bar for bar in self.bars if not bar.measured]),
                ("measured", [bar for bar in self.bars if bar.measured]),
            )
        }
        return [(kind, path) for kind, path in outlines.items() if path]

    @property
    def has_averages(self) -> bool:
        """Whether a bar covers so long a time that it may hide something."""
        return any(not bar.measured for bar in self.bars)

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


def stretch_of(window: RestoreWindow, span_seconds: int | None) -> tuple[datetime, datetime] | None:
    """Return the ends of a window, or of its last `span_seconds`; None when there is nothing to go back to."""
    if window.earliest is None or window.latest is None or window.latest <= window.earliest:
        return None
    if span_seconds is None:
        return window.earliest, window.latest
    return max(window.earliest, window.latest - timedelta(seconds=span_seconds)), window.latest


def draw(window: RestoreWindow, writes: Sequence[WalVolume], span_seconds: int | None) -> Timeline | None:
    """Return the time line of a window, or of its last `span_seconds`; None when there is nothing to go back to."""
    stretch = stretch_of(window, span_seconds)
    if stretch is None:
        return None
    earliest, latest = stretch
    scale = _Scale(earliest, latest)
    snapshots = sorted(window.snapshots, key=lambda one: one.taken_at)
    return Timeline(
        earliest,
        latest,
        _bars(scale, [part for one in writes if (part := one.within(earliest, latest)) is not None]),
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


def _bars(scale: _Scale, writes: Sequence[WalVolume]) -> list[Bar]:
    """Return a bar for each stretch of writes; those too narrow to be seen are put together with what follows."""
    stretches = list(_joined(scale, writes))
    rates = [one.size_bytes / max(one.seconds, 1e-3) for one in stretches]
    highest = max(rates, default=0.0)
    return [
        Bar(
            scale.x(one.begins_at),
            width,
            round(HEIGHT * sqrt(rate / highest), 1),
            one.size_bytes,
            one.measured or one.seconds <= _SHORT_SECONDS or width <= _SMALL,
        )
        for one, rate in zip(stretches, rates, strict=True)
        if one.size_bytes > 0 and (width := scale.width(one.begins_at, one.ends_at)) > 0
    ]


def _joined(scale: _Scale, writes: Sequence[WalVolume]) -> Iterable[WalVolume]:
    narrow: WalVolume | None = None
    for one in writes:
        if narrow is not None and narrow.ends_at == one.begins_at:
            measured = narrow.measured and one.measured
            one = WalVolume(narrow.begins_at, one.ends_at, narrow.size_bytes + one.size_bytes, measured)
        elif narrow is not None:
            yield narrow
        narrow = one if scale.width(one.begins_at, one.ends_at) < _FINEST else None
        if narrow is None:
            yield one
    if narrow is not None:
        yield narrow
