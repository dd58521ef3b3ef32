"""`python -m bench NAME`: run one bench and print what it found."""

import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from bench import archive, fixtures, forks, lists, many, pitr, rewinds, stall, startup, tax, warm
from bench.options import Options
from bench.report import Report

BENCHES: dict[str, Callable[[Options], Report]] = {
    "archive": archive.bench_archive,
    "fixture": fixtures.bench_fixture,
    "fork-idle": forks.bench_idle,
    "fork-loaded": forks.bench_loaded,
    "stall": stall.bench_stall,
    "startup": startup.bench_startup,
    "tax": tax.bench_tax,
    "pitr": pitr.bench_pitr,
    "rewind": rewinds.bench_rewind,
    "list": lists.bench_list,
    "space": many.bench_space,
    "density": many.bench_density,
    "batch": many.bench_batch,
    "warm": warm.bench_warm,
}


_LIMIT_MINUTES = 90


@contextmanager
def bounded(seconds: int) -> Iterator[None]:
    """End what runs too long or gets SIGTERM by SystemExit, which no retry takes for a fault of the network."""

    def end(number: int, _frame: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # nothing ends the cleaning up
        if number == signal.SIGALRM:
            raise SystemExit(f"the bench did not end within {seconds} s")
        raise SystemExit("the bench was terminated")

    before = {number: signal.signal(number, end) for number in (signal.SIGALRM, signal.SIGTERM)}
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


@click.command(context_settings={"max_content_width": 120})
@click.argument("name", type=click.Choice(sorted(BENCHES)))
@click.option("--quick", is_flag=True, help="Leave the largest size and the second driver out.")
@click.option("--json", "as_json", is_flag=True, help="End with one line that is a JSON object.")
@click.option("--data", type=click.Path(path_type=Path), help="Where to work.  [default: /var/tmp/ramet-bench-*]")
@click.option("--repeats", default=0, help="How often each method is measured.")
@click.option("--size", "sizes", type=int, multiple=True, help="Megabytes; may be given several times.")
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    help="auto, reflink, btrfs or copy; several times for several. fork-idle: also kubernetes.",
)
@click.option("--limit", "limit_minutes", default=_LIMIT_MINUTES, help="Minutes after which it fails.  [default: 90]")
@click.option("--max", "most", default=0, help="The most forks that density makes.")
def main(name: str, quick: bool, as_json: bool, data: Path | None, limit_minutes: int, **asked: object) -> None:
    """Measure NAME on this machine, beside its peers."""
    place = data or Path(tempfile.gettempdir()).parent / "var/tmp" / f"ramet-bench-{name}"
    options = Options(data=place, quick=quick, **asked)  # type: ignore[arg-type]
    with bounded(60 * limit_minutes):
        report = BENCHES[name](options)
    report.show(Console(file=sys.stderr if as_json else sys.stdout, width=120))
    if as_json:
        click.echo(report.as_json())


if __name__ == "__main__":
    main()
