"""Pictures and a table of a run of `fork-idle` or `fork-loaded`: `python -m bench.pictures RUN.json`.

RUN.json holds what `script/bench fork-idle --json` printed; only its last line is read.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import click
import msgspec

from bench.report import Row

_FORKS = ("now", "last_snapshot", "pitr")
_PEERS = ("floor", "bare_clone", "cp", "pg_basebackup", "pgbackrest", "create_database")
_NO_PART = ("ready", "p99")
_REST = "rest"
_COLOURS = ("#4f6d8f", "#6b9e78", "#c98f3c", "#a8577e", "#7a6fb0", "#b5b5b5", "#5aa7b5", "#8c6d46", "#c0564b")
_WIDTH, _LEFT, _RIGHT, _TOP = 760, 130, 90, 40


class Run(msgspec.Struct):
    """What a bench has found, as far as pictures need it."""

    bench: str
    rows: list[Row]


def timeline(run: Run, size_mb: int) -> str:
    """Return the parts of each kind of fork of one size, one after another, beside a bare start."""
    medians = {row.method: row.median_ms for row in run.rows if row.size_mb == size_mb}
    lanes = [(method, _parts(medians, method)) for method in ("floor", *_FORKS) if method in medians]
    longest = max(sum(milliseconds for _, milliseconds in parts) for _, parts in lanes)
    names = [*dict.fromkeys(name for _, parts in lanes for name, _ in parts if name != _REST), _REST]
    scale, height = (_WIDTH - _LEFT - _RIGHT) / longest, _TOP + 40 * len(lanes)
    drawn: list[str] = []
    for number, (method, parts) in enumerate(lanes):
        x, y = float(_LEFT), _TOP + 40 * number
        drawn.append(_text(_LEFT - 8, y + 17, method, "end"))
        for name, milliseconds in parts:
            width = milliseconds * scale
            drawn.append(_box(x, y, width, _COLOURS[names.index(name)], f"{name}: {milliseconds:.1f} ms"))
            x += width
        drawn.append(_text(x + 6, y + 17, f"{sum(part[1] for part in parts):.0f} ms"))
    drawn += _legend(names, height + 8)
    title = f"{run.bench}: from the request to the first answer, {size_mb} MB, medians"
    return _picture(title, height + 40, drawn)


def sizes(run: Run) -> str:
    """Return the time of each method against the size of the data, both on logarithmic axes."""
    whole = [row for row in run.rows if row.method in (*_FORKS, *_PEERS)]
    low, high = (f(row.size_mb for row in whole) for f in (min, max))
    fast = 10 ** math.floor(math.log10(min(row.median_ms for row in whole)))
    slow = 10 ** math.ceil(math.log10(max(row.median_ms for row in whole)))
    bottom = 340

    def place(row: Row) -> tuple[float, float]:
        along = 0.5 if high == low else math.log(row.size_mb / low) / math.log(high / low)
        return _LEFT + along * (_WIDTH - _LEFT - 180), bottom - math.log(row.median_ms / fast) / math.log(
            slow / fast
        ) * 290

    drawn = [_text(place(row)[0], bottom + 20, f"{row.size_mb} MB", "middle") for row in whole if row.method == "floor"]
    for decade in range(round(math.log10(slow / fast)) + 1):
        y = bottom - 290 * decade / math.log10(slow / fast)
        drawn.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - 180}" y2="{y:.1f}" stroke="#ddd"/>')
        drawn.append(_text(_LEFT - 8, y + 4, f"{fast * 10**decade:,} ms", "end"))
    ends: list[float] = []
    for method in (*_FORKS, *_PEERS):
        points = sorted(place(row) for row in whole if row.method == method)
        if points:
            drawn += _line(method, points, ends)
    return _picture(f"{run.bench}: time against size, medians", bottom + 40, drawn)


def table(run: Run) -> str:
    """Return the medians as a table in Markdown: a line for each method, a column for each size."""
    medians = {(row.method, row.size_mb): f"{row.median_ms:,.0f}" for row in run.rows if ":" not in row.method}
    columns = sorted({size_mb for _, size_mb in medians})
    lines = ["| ms | " + " | ".join(f"{size_mb:,} MB" for size_mb in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for method in dict.fromkeys(method for method, _ in medians):
        lines.append(f"| {method} | " + " | ".join(medians.get((method, size), "") for size in columns) + " |")
    return "\n".join(lines)


def _parts(medians: dict[str, float], method: str) -> list[tuple[str, float]]:
    """Return the steps of a method, and the rest: until it is leased and seen to be READY, and the first session."""
    named = [(name.partition(":"), milliseconds) for name, milliseconds in medians.items()]
    steps = [(part, ms) for (whole, _, part), ms in named if whole == method and part and part not in _NO_PART]
    rest = medians[method] - sum(milliseconds for _, milliseconds in steps)
    return [*steps, (_REST, max(0.0, rest))]


def _line(method: str, points: Sequence[tuple[float, float]], ends: list[float]) -> Iterable[str]:
    colour = _COLOURS[(*_FORKS, *_PEERS).index(method) % len(_COLOURS)]
    x, y = points[-1]
    while any(abs(y - other) < 13 for other in ends):
        y += 4
    ends.append(y)
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points)
    yield f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{colour}">{escape(method)}</text>'


def _legend(names: Sequence[str], y: float) -> Iterable[str]:
    for number, name in enumerate(names):
        x = _LEFT + 100 * number
        yield f'<rect x="{x}" y="{y}" width="12" height="12" fill="{_COLOURS[number]}"/>'
        yield _text(x + 17, y + 11, name)


def _box(x: float, y: float, width: float, colour: str, title: str) -> str:
    shape = f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="26" fill="{colour}">'
    return f"{shape}<title>{escape(title)}</title></rect>"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _picture(title: str, height: float, drawn: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img"'
        ' font-family="sans-serif" font-size="12" fill="#333">'
    )
    ground = f'<title>{escape(title)}</title><rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, ground, _text(12, 22, title), *drawn, "</svg>"]) + "\n"


@click.command()
@click.argument("run_json", type=click.Path(exists=True, path_type=Path))
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/images"))
def main(run_json: Path, into: Path) -> None:
    """Draw the timeline of a fork and its time against size, and print the medians as a table in Markdown."""
    run = msgspec.json.decode(run_json.read_text().splitlines()[-1], type=Run)
    largest = max(row.size_mb for row in run.rows if row.method == "now")
    into.mkdir(parents=True, exist_ok=True)
    (into / f"{run.bench}-timeline.svg").write_text(timeline(run, largest))
    (into / f"{run.bench}-sizes.svg").write_text(sizes(run))
    click.echo(table(run))


if __name__ == "__main__":
    main()
