"""`stall`: what transactions of the parent feel while it is being forked."""

import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.bare import bare
from bench.data import fill, load
from bench.instance import instance
from bench.options import Options
from bench.report import Report, percentile

_STRATEGIES = ("NOW", "LAST_SNAPSHOT", "PITR")
_CALM_SECONDS = 3.0


def bench_stall(options: Options) -> Report:
    """Latency of pgbench's transactions before forks and during each kind of fork."""
    report = Report("stall")
    size_mb = options.sizes[0] if options.sizes else (100 if options.quick else 1000)
    windows: list[tuple[str, float, float]] = []
    with (
        instance(options.data, *options.drivers[:1]) as running,
        bare() as means,
        tempfile.TemporaryDirectory() as logs,
    ):
        api = running.api()
        parent = api.create("parent")
        fill(means.programs, parent.service, size_mb)
        api.snapshot(parent.service_id)
        with load(means.programs, parent.service, Path(logs) / "log"):
            for _ in range(options.repeats or 5):
                for strategy in _STRATEGIES:
                    begun = time.time()
                    time.sleep(_CALM_SECONDS)
                    windows.append(("before", begun + 1, time.time()))
                    begun = time.time()
                    restore_time = datetime.now(UTC) - timedelta(seconds=1) if strategy == "PITR" else None
                    fork = api.fork(parent.service_id, strategy, restore_time)
                    windows.append((strategy.lower(), begun, time.time()))
                    time.sleep(1)
                    api.delete(fork.service_id)
        transactions = transactions_in(Path(logs))
    names = [strategy.lower() for strategy in _STRATEGIES]
    for method in ("before", *names):
        _add(report, method, size_mb, within(transactions, [w[1:] for w in windows if w[0] == method]))
    for name in names:
        for figure in ("p99", "longest"):
            report.ratio(
                f"{name}_{figure}_to_before", report.median(f"{name}:{figure}"), report.median(f"before:{figure}")
            )
    return report


def _add(report: Report, method: str, size_mb: int, milliseconds: Sequence[float]) -> None:
    report.add(method, size_mb, milliseconds)
    if milliseconds:
        report.add(f"{method}:p99", size_mb, [percentile(milliseconds, 0.99)])
        report.add(f"{method}:longest", size_mb, [max(milliseconds)])


def transactions_in(logs: Path) -> list[tuple[float, float]]:
    """Return (end in seconds since the epoch, milliseconds) of each transaction that pgbench has logged."""
    found = []
    for log in logs.iterdir():
        for line in log.read_text().splitlines():
            fields = line.split()
            if len(fields) >= 6 and fields[2].isdigit():
                found.append((int(fields[4]) + int(fields[5]) / 1e6, int(fields[2]) / 1000))
    return found


def within(transactions: Sequence[tuple[float, float]], windows: Sequence[tuple[float, float]]) -> list[float]:
    """Return the milliseconds of the transactions that ended in one of the windows (seconds since the epoch)."""
    return [taken for end, taken in transactions if any(first <= end <= last for first, last in windows)]
