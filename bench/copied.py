"""`space --driver copy`: what a service takes on disk where copies share no blocks, after two minutes of writes."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from bench.api import Api, Timed
from bench.bare import bare
from bench.data import fill, load
from bench.instance import instance
from bench.options import Options
from bench.report import Report
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.wal.locate import WAL_DIRECTORY

_SIZE_MB = 630
_QUICK_MB = 100
_WRITING_SECONDS = 120.0
_BLOCK_BYTES = 512
_MIB = 1024**2


def bench_copied_space(options: Options) -> Report:
    """What the data, the WAL and the snapshots of one service take, in MiB, and forks of its three kinds then."""
    report = Report("space")
    size_mb = options.sizes[0] if options.sizes else (_QUICK_MB if options.quick else _SIZE_MB)
    with instance(options.data, "copy") as running, bare() as means:
        api = running.api()
        parent = api.create("parent")
        fill(means.programs, parent.service, size_mb)
        with load(means.programs, parent.service):
            time.sleep(_WRITING_SECONDS)
        paths = running.paths(parent.service_id)
        os.sync()
        report.ratios |= _occupied(paths)
        before = datetime.now(UTC)
        _time_forks(report, api, parent, size_mb, "now", options.repeats or 3)
        begun = time.perf_counter()
        taken_at = api.snapshot(parent.service_id)
        report.add("snapshot", size_mb, [1000 * (time.perf_counter() - begun)])
        os.sync()
        report.ratios |= {f"{name}_with_one_more": value for name, value in _occupied(paths).items()}
        _time_forks(report, api, parent, size_mb, "last_snapshot", options.repeats or 3)
        _time_forks(report, api, parent, size_mb, "pitr_of_snapshot", options.repeats or 3, taken_at)
        # With the most WAL to replay that there is: what was written since the snapshot before.
        _time_forks(report, api, parent, size_mb, "pitr_before_snapshot", 1, before)
    return report


def _time_forks(
    report: Report, api: Api, parent: Timed, size_mb: int, method: str, repeats: int, target: datetime | None = None
) -> None:
    strategy = "PITR" if target else method.upper()
    milliseconds = []
    for _ in range(repeats):
        fork = api.fork(parent.service_id, strategy, target)
        milliseconds.append(fork.answered_ms)
        api.delete(fork.service_id)
    report.add(method, size_mb, milliseconds)


def _occupied(paths: ServicePaths) -> dict[str, float]:
    seen: set[int] = set()
    wal = _mib(seen, paths.archive, paths.data / WAL_DIRECTORY)
    data, snapshots, all_else = _mib(seen, paths.data), _mib(seen, paths.snapshots), _mib(seen, paths.root)
    total = wal + data + snapshots + all_else
    return {
        "data_mb": round(data, 1),
        "wal_mb": round(wal, 1),
        "snapshots_mb": round(snapshots, 1),
        "snapshots": len(list(paths.snapshots.glob("*/base.json"))),
        "all_mb": round(total, 1),
        "all_to_data_and_wal": round(total / (data + wal), 2),
    }


def _mib(seen: set[int], *places: Path) -> float:
    """Return the MiB on disk under some directories; a file counts once, whatever its number of names."""
    total = 0
    for status in (os.lstat(path) for place in places for path in _files(place)):
        if status.st_ino not in seen:
            seen.add(status.st_ino)
            total += status.st_blocks * _BLOCK_BYTES
    return total / _MIB


def _files(place: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(place):
        yield from (Path(directory, name) for name in names)
