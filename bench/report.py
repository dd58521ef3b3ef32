"""What a bench found: rows of one measure each, ratios between them, and the machine; as a table and as one object."""

import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One method on one size. A method named `now:capture` is a part of `now`."""

    method: str
    size_mb: int
    median_ms: float
    min_ms: float
    max_ms: float
    n: int


@dataclass
class Report:
    """The rows of a bench in the order in which they were added, its ratios, and remarks for people."""

    bench: str
    rows: list[Row] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, method: str, size_mb: int, milliseconds: Sequence[float]) -> None:
        """Add the samples of one method; none at all adds nothing."""
        if milliseconds:
            middle = statistics.median(milliseconds)
            self.rows.append(
                Row(
                    method,
                    size_mb,
                    round(middle, 3),
                    round(min(milliseconds), 3),
                    round(max(milliseconds), 3),
                    len(milliseconds),
                )
            )

    def median(self, method: str, size_mb: int | None = None) -> float | None:
        """Return the median of a method, at the largest size when none is named; None when it was not measured."""
        found = [row for row in self.rows if row.method == method and size_mb in (None, row.size_mb)]
        return max(found, key=lambda row: row.size_mb).median_ms if found else None

    def ratio(self, name: str, above: float | None, below: float | None) -> None:
        """Add a ratio, when both of its sides were measured."""
        if above is not None and below:
            self.ratios[name] = round(above / below, 3)

    def as_json(self) -> str:
        """Return the object that the last line of `--json` is."""
        return msgspec.json.encode(
            {
                "bench": self.bench,
                "rows": [asdict(row) for row in self.rows],
                "ratios": self.ratios,
                "machine": machine(),
            }
        ).decode()

    def show(self, console: Console) -> None:
        """Print the tables."""
        console.print(_table(self.bench, ("method", "MB", "median", "min", "max", "n"), map(_cells, self.rows)))
        if self.ratios:
            console.print(_table("ratios", ("ratio", "value"), ((k, f"{v:g}") for k, v in self.ratios.items())))
        for note in self.notes:
            console.print(note, highlight=False)


def machine() -> dict[str, object]:
    """Return what a reader must know of the machine to judge the figures."""
    memory = Path("/proc/meminfo").read_text().split()[1]
    return {
        "cpus": os.cpu_count(),
        "memory_gb": round(int(memory) / 1024**2, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of the values are below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _cells(row: Row) -> tuple[str, ...]:
    shown = tuple(f"{value:,.1f}" for value in (row.median_ms, row.min_ms, row.max_ms))
    return (row.method, str(row.size_mb), *shown, str(row.n))


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    return table
