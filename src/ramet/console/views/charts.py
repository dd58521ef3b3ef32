"""Charts of metrics over the same time: lines with gaps where there are no values, axes, and each value as text."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ramet.console.views.format import bytes_text, seconds_text
from ramet.console.views.time_axis import TimeAxis, time_axis
from ramet.console.views.time_scale import TimeScale
from ramet.model.metrics import Series

WIDTH = 1000.0
HEIGHT = 100.0
_UNITS = ("B", "KB", "MB", "GB", "TB")
_MOST_PARTS = 3
_CURRENT_POINTS = 3


@dataclass(frozen=True)
class Metric:
    """A series to chart, how its values are written, and how the round ones beside the axis are."""

    title: str
    name: str
    text: Callable[[float], str]
    tick: Callable[[float], str]


@dataclass(frozen=True)
class ValueTick:
    """A marked value; `y` counts from the top, in percent of the height."""

    y: float
    text: str


@dataclass(frozen=True)
class Point:
    """A value as text, and how far below the top it is drawn; None in a gap."""

    text: str
    y: float | None


@dataclass(frozen=True)
class Chart:
    """A chart that starts at 0: its line, the area below it, the marked values, and a point for each time."""

    title: str
    line: str
    area: str
    ticks: Sequence[ValueTick]
    points: Sequence[Point]

    @property
    def last_place(self) -> int:
        """Where in the points the newest value is."""
        return max(place for place, point in enumerate(self.points) if point.y is not None)

    @property
    def is_current(self) -> bool:
        """Whether the newest value is of now: the last points may be of times that no sample was taken in yet."""
        return self.last_place >= len(self.points) - _CURRENT_POINTS


@dataclass(frozen=True)
class ChartPage:
    """Charts over the same times."""

    times: Sequence[datetime]
    axis: TimeAxis
    charts: Sequence[Chart]

    @property
    def rows(self) -> Sequence[tuple[datetime, Sequence[Point]]]:
        """Each time with the points of all charts."""
        return [(at, [chart.points[place] for chart in self.charts]) for place, at in enumerate(self.times)]


def _bytes_tick(value: float) -> str:
    unit = 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:g} {_UNITS[unit]}"


def _count(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _number(value: float) -> str:
    return f"{value:,.10g}"


def _per_second(text: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: f"{text(value)}/s"


METRICS = (
    Metric("CPU", "ramet_cpu_seconds_total", "{:.2f} CPU".format, _number),
    Metric("Memory", "ramet_memory_bytes", bytes_text, _bytes_tick),
    Metric("Connections", "ramet_connections", _count, _number),
    Metric("Transactions", "ramet_transactions_total", _per_second(_count), _per_second(_number)),
    Metric("WAL", "ramet_wal_bytes_total", _per_second(bytes_text), _per_second(_bytes_tick)),
    Metric("Storage", "ramet_storage_bytes", bytes_text, _bytes_tick),
    Metric("Behind the off-host archive", "ramet_archive_lag_seconds", seconds_text, seconds_text),
    Metric("Behind the source", "ramet_source_lag_bytes", bytes_text, _bytes_tick),
)


def charts(found: Sequence[tuple[Metric, Sequence[Series]]]) -> ChartPage | None:
    """Return the charts of metrics, of each the sum over all labels; None when there are no values at all."""
    summed = [(metric, _summed(series)) for metric, series in found]
    known = [(metric, points) for metric, points in summed if any(value is not None for _, value in points)]
    if not known:
        return None
    times = [at for at, _ in known[0][1]]
    scale = TimeScale(times[0], times[-1], 0.0, 100.0)
    return ChartPage(
        times, time_axis(scale), [_chart(metric, [value for _, value in points]) for metric, points in known]
    )


def _summed(series: Sequence[Series]) -> list[tuple[datetime, float | None]]:
    total: dict[datetime, float | None] = {}
    for one in series:
        for at, value in one.points:
            before = total.get(at)
            total[at] = before if value is None else value + (before or 0.0)
    return sorted(total.items(), key=lambda point: point[0])


def _chart(metric: Metric, values: Sequence[float | None]) -> Chart:
    marked = round_values(max(value for value in values if value is not None))
    height = [None if value is None else round(HEIGHT * (1 - value / marked[-1]), 1) for value in values]
    runs = _runs(height)
    line = " ".join("M" + " L".join(f"{x:g} {y:g}" for x, y in run) for run in runs)
    area = " ".join(
        f"M{run[0][0]:g} {HEIGHT:g} L" + " L".join(f"{x:g} {y:g}" for x, y in run) + f" L{run[-1][0]:g} {HEIGHT:g} Z"
        for run in runs
    )
    ticks = [ValueTick(round(HEIGHT * (1 - value / marked[-1]), 1), metric.tick(value)) for value in marked]
    points = [
        Point("no sample" if value is None else metric.text(value), y) for value, y in zip(values, height, strict=True)
    ]
    return Chart(metric.title, line, area, ticks, points)


def round_values(highest: float) -> list[float]:
    """Return the values to mark, from 0 to at least the highest value: 1, 2 or 5 of a power of ten apart."""
    if highest <= 0:
        return [0.0, 1.0]
    magnitude = 10.0 ** math.floor(math.log10(highest / _MOST_PARTS))
    step = next(
        step for step in (magnitude, 2 * magnitude, 5 * magnitude, 10 * magnitude) if highest / step <= _MOST_PARTS
    )
    return [round(n * step, 12) for n in range(math.ceil(highest / step) + 1)]


def _runs(heights: Sequence[float | None]) -> list[list[tuple[float, float]]]:
    """Return the parts between gaps; a single point becomes a short line."""
    step = WIDTH / max(1, len(heights) - 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for place, y in enumerate(heights):
        if y is None:
            runs.append([])
        else:
            runs[-1].append((round(place * step, 1), y))
    return [run if len(run) > 1 else [(max(0.0, run[0][0] - step / 2), run[0][1]), run[0]] for run in runs if run]
