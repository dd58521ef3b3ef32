"""Small charts of metrics as SVG paths, with gaps where there are no values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ramet.console.views.format import bytes_text
from ramet.model.metrics import Series

WIDTH = 240.0
HEIGHT = 56.0


@dataclass(frozen=True)
class Chart:
    """A chart that starts at 0: the line, the area below it, the last and the highest value as text, and its period."""

    title: str
    line: str
    area: str
    last: str
    highest: str
    begins_at: datetime
    ends_at: datetime


@dataclass(frozen=True)
class Metric:
    """A series to chart, and how its values are written."""

    title: str
    name: str
    text: Callable[[float], str]


def _count(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


METRICS = (
    Metric("CPU", "ramet_cpu_seconds_total", "{:.2f} CPU".format),
    Metric("Memory", "ramet_memory_bytes", bytes_text),
    Metric("Connections", "ramet_connections", _count),
    Metric("Transactions per second", "ramet_transactions_total", _count),
    Metric("WAL per second", "ramet_wal_bytes_total", bytes_text),
    Metric("Storage", "ramet_storage_bytes", bytes_text),
)


def chart(metric: Metric, series: Sequence[Series]) -> Chart | None:
    """Return the chart of a metric as the sum over all labels; None without values."""
    points = _summed(series)
    values = [value for _, value in points if value is not None]
    if not values:
        return None
    runs = _runs(points, max(values))
    line = " ".join("M" + " L".join(f"{x:g} {y:g}" for x, y in run) for run in runs)
    area = " ".join(
        f"M{run[0][0]:g} {HEIGHT:g} L" + " L".join(f"{x:g} {y:g}" for x, y in run) + f" L{run[-1][0]:g} {HEIGHT:g} Z"
        for run in runs
    )
    highest, last = metric.text(max(values)), metric.text(values[-1])
    return Chart(metric.title, line, area, last, highest, points[0][0], points[-1][0])


def _summed(series: Sequence[Series]) -> list[tuple[datetime, float | None]]:
    total: dict[datetime, float | None] = {}
    for one in series:
        for at, value in one.points:
            before = total.get(at)
            total[at] = before if value is None else value + (before or 0.0)
    return sorted(total.items(), key=lambda point: point[0])


def _runs(points: Sequence[tuple[datetime, float | None]], highest: float) -> list[list[tuple[float, float]]]:
    """Return the parts between gaps; a single point becomes a short line."""
    step = WIDTH / max(1, len(points) - 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for place, (_, value) in enumerate(points):
        if value is None:
            runs.append([])
        else:
            y = HEIGHT - 2 - (HEIGHT - 6) * (value / highest if highest > 0 else 0.0)
            runs[-1].append((round(place * step, 2), round(y, 2)))
    return [run if len(run) > 1 else [(max(0.0, run[0][0] - step / 2), run[0][1]), run[0]] for run in runs if run]
