"""The axis below a picture over time: which times are marked, where, and in which words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ramet.console.views.time_scale import TimeScale

_MOST = 5
_DAY = 86_400
_STEPS = (
    *(1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600),
    *(_DAY * days for days in (1, 2, 5, 14, 30, 91, 182, 365)),
)
_LONGEST_OF_HOURS = 1.25 * _DAY
_LONGEST_OF_DAYS = 300 * _DAY


@dataclass(frozen=True)
class TimeTick:
    """A marked time: `x` as on the axis's scale, `milli` since the epoch."""

    x: float
    milli: int
    text: str


@dataclass(frozen=True)
class TimeAxis:
    """Round times of UTC on a scale; the script moves them to round times of the viewer's zone."""

    scale: TimeScale
    step_seconds: int
    ticks: Sequence[TimeTick]

    @property
    def first_milli(self) -> int:
        """The beginning, in milliseconds since the epoch."""
        return _milli(self.scale.earliest)

    @property
    def last_milli(self) -> int:
        """The end, in milliseconds since the epoch."""
        return _milli(self.scale.latest)


def time_axis(scale: TimeScale) -> TimeAxis:
    """Return the axis of a scale: with as many marks as fit on a narrow screen."""
    begin, end = scale.earliest.timestamp(), scale.latest.timestamp()
    step = _step(end - begin)
    first = math.ceil(begin / step)
    times = [datetime.fromtimestamp(n * step, UTC) for n in range(first, math.floor(end / step) + 1)]
    style = _style(step, end - begin)
    return TimeAxis(scale, step, [TimeTick(scale.x(at), _milli(at), _text(at, style)) for at in times])


def _step(seconds: float) -> int:
    fitting = [step for step in _STEPS if seconds / step <= _MOST]
    if not fitting:
        return _STEPS[-1] * math.ceil(seconds / _STEPS[-1] / _MOST)
    long = [step for step in fitting if step >= _DAY]
    return long[0] if seconds > _LONGEST_OF_HOURS else fitting[0]


def _style(step: int, seconds: float) -> str:
    if step < _DAY:
        return "%H:%M:%S" if step < 60 else "%H:%M"
    return "%d %b" if seconds <= _LONGEST_OF_DAYS else "%b %Y"


def _text(at: datetime, style: str) -> str:
    return at.strftime(style).removeprefix("0") if style.startswith("%d") else at.strftime(style)


def _milli(at: datetime) -> int:
    return round(at.timestamp() * 1000)
