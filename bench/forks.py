"""`fork-idle` and `fork-loaded`: from the request sent to the first answer of the fork, beside what others take."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench import in_cluster
from bench.api import Api, Timed
from bench.bare import Bare, bare
from bench.clonedb import database_clones
from bench.data import fill, load
from bench.instance import Instance, instance
from bench.options import Options
from bench.peers import Peers
from bench.report import Report
from ramet.backends.local.host.paths import ServicePaths

_QUICK_MB = (100, 1000)
_ALL_MB = (100, 1000, 10_000)
_LARGE_MB = 5000
_PEERS_OWN_DATA_MB = 1000
_REST_SECONDS = 0.3
_PREPARED_WITHIN_SECONDS = 1.5
_SLOW = ("pg_basebackup", "cp", "pgbackrest")


@dataclass
class _Samples:
    """Milliseconds by method."""

    of: dict[str, list[float]]

    def add(self, method: str, milliseconds: float) -> None:
        self.of.setdefault(method, []).append(milliseconds)


def bench_idle(options: Options) -> Report:
    """Forks of a parent without writes; with the driver kubernetes, those in a cluster."""
    if options.drivers == ("kubernetes",):
        return in_cluster.bench_forks(options)
    return _bench("fork-idle", options, loaded=False)


def bench_loaded(options: Options) -> Report:
    """Forks of a parent that two clients write to as fast as they can."""
    return _bench("fork-loaded", options, loaded=True)


def _bench(name: str, options: Options, *, loaded: bool) -> Report:
    report = Report(name)
    sizes = options.sizes or (_QUICK_MB if options.quick else _ALL_MB)
    drivers = options.drivers or (("auto",) if options.quick else ("auto", "btrfs", "copy"))
    suffixes = ["", *(f"_{driver}" for driver in drivers[1:])]
    for driver, suffix in zip(drivers, suffixes, strict=True):
        with instance(options.data, driver) as running, bare() as means:
            for size_mb in (size for size in sizes if driver != "copy" or size <= _LARGE_MB):
                samples = _measure(running, means, options, size_mb, loaded=loaded, peers=not suffix)
                for method, values in samples.of.items():
                    head, _, part = method.partition(":")
                    report.add(f"{head}{suffix}{':' + part if part else ''}", size_mb, values)
    _add_ratios(report, sizes, suffixes)
    return report


def _measure(running: Instance, means: Bare, options: Options, size_mb: int, *, loaded: bool, peers: bool) -> _Samples:
    api, samples = running.api(), _Samples({})
    parent = api.create(f"parent-{size_mb}")
    fill(means.programs, parent.service, size_mb)
    api.snapshot(parent.service_id)
    first = api.fork(parent.service_id, "NOW")  # snapshots of what was never forked are not prepared
    api.delete(first.service_id)
    time.sleep(1)
    repeats = options.repeats or (3 if size_mb > _LARGE_MB else 5)
    paths = running.paths(parent.service_id)
    with room_for_copies(running.pool) as room, ExitStack() as stack:
        means.initialize(room / "empty")
        others = _others(means, paths, room, options.data, size_mb, stack) if peers else {}
        busy = load(means.programs, parent.service) if loaded else nullcontext()
        with busy:
            for turn in range(repeats):
                _turn(running, api, parent, samples, loaded=loaded)
                for method, act in {"floor": lambda: means.started(room / "empty"), **others}.items():
                    if turn < (2 if method in _SLOW and size_mb > _LARGE_MB else 3) or method not in _SLOW:
                        _rest()
                        samples.add(method, act())
    api.delete(parent.service_id)
    return samples


def _turn(running: Instance, api: Api, parent: Timed, samples: _Samples, *, loaded: bool) -> None:
    if not loaded:
        api.snapshot(parent.service_id)  # as a service gets one that came to rest; the last PITR has written to it
        time.sleep(_PREPARED_WITHIN_SECONDS)
    restore_time = datetime.now(UTC) - timedelta(seconds=0.5)
    for method, strategy, target in (
        ("now", "NOW", None),
        ("last_snapshot", "LAST_SNAPSHOT", None),
        ("pitr", "PITR", restore_time),
    ):
        _rest()
        fork = api.fork(parent.service_id, strategy, target)
        samples.add(method, fork.answered_ms)
        samples.add(f"{method}:accepted", fork.accepted_ms)
        samples.add(f"{method}:ready", fork.ready_ms)
        for step, milliseconds in running.milliseconds(fork.service_id).items():
            samples.add(f"{method}:{step}", milliseconds)
        _rest()
        api.delete(fork.service_id)


def _others(
    means: Bare, parent: ServicePaths, room: Path, data: Path, size_mb: int, stack: ExitStack
) -> dict[str, Callable[[], float]]:
    peers = Peers(means, parent, room, data / "pgbackrest")
    stack.enter_context(peers.replication_allowed())
    found = peers.all()
    if size_mb > _PEERS_OWN_DATA_MB:
        found.pop("pgbackrest", None)
    if "pgbackrest" in found:
        peers.back_up()
    if size_mb <= _PEERS_OWN_DATA_MB:
        clones = stack.enter_context(database_clones(means, room, size_mb))
        found |= {} if clones is None else {"create_database": clones.clone}
    return found


@contextmanager
def room_for_copies(pool: Path) -> Iterator[Path]:
    """Yield a directory for copies on the parent's file system."""
    room = pool / "bench"
    room.mkdir(mode=0o711)
    try:
        yield room
    finally:
        shutil.rmtree(room)


def _rest() -> None:
    """Write out dirty pages, so that no run pays for those of the run before."""
    os.sync()
    time.sleep(_REST_SECONDS)


def _add_ratios(report: Report, sizes: Sequence[int], suffixes: Sequence[str]) -> None:
    for method in (f"{method}{suffix}" for suffix in suffixes for method in ("now", "last_snapshot", "pitr")):
        report.ratio(f"{method}_vs_floor", report.median(method), report.median("floor"))
        for size_mb in sizes:
            below = report.median("floor", size_mb)
            report.ratio(f"{method}_{size_mb}mb_vs_floor", report.median(method, size_mb), below)
        ends = report.median(method, max(sizes)), report.median(method, min(sizes))
        report.ratio(f"{method}_largest_to_smallest", *ends)
    for peer in ("bare_clone", "cp", "pg_basebackup", "pgbackrest", "create_database"):
        for size_mb in sizes:
            report.ratio(f"{peer}_{size_mb}mb_vs_now", report.median(peer, size_mb), report.median("now", size_mb))
        measured = [row.size_mb for row in report.rows if row.method == peer]
        if measured:
            size_mb = max(measured)
            report.ratio(f"{peer}_vs_now", report.median(peer, size_mb), report.median("now", size_mb))
