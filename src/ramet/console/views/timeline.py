"""The timeline of a restore window: where its snapshots, gaps and WAL volume are drawn."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from ramet.console.views.time_scale import TimeScale
from ramet.console.views.wal_volume import WalVolume
from ramet.model.restore_window import RestoreWindow

WIDTH = 1000.0
HEIGHT = 56.0
_NARROWEST = 1.5
_FINEST = WIDTH / 250
_SHORT_SECONDS = 90.0
_SMALL = WIDTH / 50
SPANS = ((None, "all"), (86_400, "day"), (3600, "hour"), (600, "10 minutes"), (60, "minute"))


@dataclass(frozen=True)
class Bar:
    """The WAL written in a period: the height is bytes per second, on a square-root scale.

    A bar that is not `measured` is an average over a long period; the WAL may have been written at any time of it.
    """

    x: float
    width: float
    height: float
    size_bytes: float
    measured: bool


@dataclass(frozen=True)
class GapBar:
    """A period that cannot be restored to."""

    x: float
    width: float
    reason: str


@dataclass(frozen=True)
class Timeline:
    """A restore window, or the last part of it, from `earliest` to `latest`. `snapshots` are coordinates."""

    earliest: datetime
    latest: datetime
    bars: Sequence[Bar]
    snapshots: Sequence[float]
    gaps: Sequence[GapBar]
    span_seconds: int | None

    @property
    def paths(self) -> Sequence[tuple[str, str]]:
        """The outlines of the bars as (kind, path); the kinds are `even` and `measured`."""
        outlines = {"even": "", "measured": ""}
        for bar in self.bars:
            kind = "measured" if bar.measured else "even"
            outlines[kind] += f"M{bar.x:g} {HEIGHT:g}V{HEIGHT - bar.height:g}h{bar.width:g}V{HEIGHT:g}z"
        return [(kind, path) for kind, path in outlines.items() if path]

    @property
    def has_averages(self) -> bool:
        """Whether a bar is an average over a long period."""
        return any(not bar.measured for bar in self.bars)

    @property
    def first_milli(self) -> int:
        """The first whole millisecond that can be restored to, since the epoch."""
        return int(self.earliest.timestamp() * 1000) + 1

    @property
    def last_milli(self) -> int:
        """The last whole millisecond, since the epoch."""
        return max(self.first_milli, int(self.latest.timestamp() * 1000))

    @property
    def spans(self) -> Sequence[tuple[int | None, str]]:
        """The periods to choose from: those that are shorter than the window, and the one shown."""
        whole = (self.latest - self.earliest).total_seconds()
        return [span for span in SPANS if span[0] is None or span[0] < whole or span[0] == self.span_seconds]


def shown_period(window: RestoreWindow, span_seconds: int | None) -> tuple[datetime, datetime] | None:
    """Return the ends of a window, or of its last `span_seconds`; None for an empty window."""
    if window.earliest is None or window.latest is None or window.latest <= window.earliest:
        return None
    if span_seconds is None:
        return window.earliest, window.latest
    return max(window.earliest, window.latest - timedelta(seconds=span_seconds)), window.latest


def draw(window: RestoreWindow, volumes: Sequence[WalVolume], span_seconds: int | None) -> Timeline | None:
    """Return the timeline of a window, or of its last `span_seconds`; None for an empty window."""
    period = shown_period(window, span_seconds)
    if period is None:
        return None
    earliest, latest = period
    scale = TimeScale(earliest, latest, 0.0, WIDTH)
    return Timeline(
        earliest,
        latest,
        _bars(scale, [part for one in volumes if (part := one.within(earliest, latest)) is not None]),
        [scale.x(at) for at in sorted(one.taken_at for one in window.snapshots) if at >= earliest],
        [
            GapBar(scale.x(gap.begins_at), max(_NARROWEST, _width(scale, gap.begins_at, gap.ends_at)), gap.reason)
            for gap in window.gaps
            if gap.ends_at is None or gap.ends_at > earliest
        ],
        span_seconds,
    )


def _width(scale: TimeScale, begins_at: datetime, ends_at: datetime | None) -> float:
    return round(scale.x(ends_at or scale.latest) - scale.x(begins_at), 2)


def _bars(scale: TimeScale, volumes: Sequence[WalVolume]) -> list[Bar]:
    """Return a bar for each volume; those too narrow to be seen are merged with the next one."""
    merged = list(_merged(scale, volumes))
    rates = [one.size_bytes / max(one.seconds, 1e-3) for one in merged]
    highest = max(rates, default=0.0)
    return [
        Bar(
            scale.x(one.begins_at),
            width,
            round(HEIGHT * sqrt(rate / highest), 1),
            one.size_bytes,
            one.measured or one.seconds <= _SHORT_SECONDS or width <= _SMALL,
        )
        for one, rate in zip(merged, rates, strict=True)
        if one.size_bytes > 0 and (width := _width(scale, one.begins_at, one.ends_at)) > 0
    ]


def _merged(scale: TimeScale, volumes: Sequence[WalVolume]) -> Iterable[WalVolume]:
    narrow: WalVolume | None = None
    for one in volumes:
        if narrow is not None and narrow.ends_at == one.begins_at:
            measured = narrow.measured and one.measured
            one = WalVolume(narrow.begins_at, one.ends_at, narrow.size_bytes + one.size_bytes, measured)
        elif narrow is not None:
            yield narrow
        narrow = one if _width(scale, one.begins_at, one.ends_at) < _FINEST else None
        if narrow is None:
            yield one
    if narrow is not None:
        yield narrow
