"""`batch`, `density` and `space`: many forks at once, many forks side by side, and what a fork takes on disk."""

import contextlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.accept import accepted_while_busy, preferred
from bench.api import Api, Timed, connect
from bench.bare import bare
from bench.copied import bench_copied_space
from bench.data import fill
from bench.instance import Instance, instance
from bench.options import Options
from bench.report import Report, percentile
from ramet.backends.local.process.identity import children_of
from ramet.backends.local.volumes.disk_usage import exclusive_bytes
from ramet.backends.local.volumes.driver import Exclusions
from ramet.backends.local.wal.locate import WAL_DIRECTORY

_SIZE_MB = 100
_BATCH = 20
_ASKED = 150
_DENSITY = 100
_MIB = 1024**2
_SETTLE_SECONDS = 3.0
_LOOKS = 5
# After a table was filled autovacuum writes, for two of its rounds; a parent that was written to is captured again.
_REST_SECONDS = 45.0
_PREPARED_WITHIN_SECONDS = 5.0


def bench_batch(options: Options) -> Report:
    """Twenty forks asked for at once; and how fast forks are accepted while ten are being made."""
    report = Report("batch")
    with instance(options.data, *options.drivers[:1], RAMET_AUTOMATIC_WARM_FORKS=str(_BATCH)) as running:
        api, every = running.api(), dict[str, list[float]]()
        parent = api.create("parent")
        with bare() as means:
            fill(means.programs, parent.service, _SIZE_MB)
        time.sleep(_REST_SECONDS)
        warm, asked = f"/{parent.service_id}/warmForks", 30 if options.quick else _ASKED

        def measure(kind: str, prepare: Callable[[], None]) -> None:
            for _ in range(options.repeats or 3):
                prepare()
                _measure_batch(running, parent, kind, every)
            accept(kind)

        def accept(kind: str) -> None:
            every[f"accepted_while_10_run{kind}"] = busy = accepted_while_busy(running, parent, asked)
            report.ratios[f"accepted_while_10_run{kind}_p99_ms"] = round(percentile(busy, 0.99), 2)

        api.call("PUT", warm, {"size": 0})
        measure("", lambda: _prepare(api, parent))
        with preferred(running):
            accept("_apart")
        api.call("DELETE", warm)
        measure("_again", lambda: api.await_warm(parent.service_id, _BATCH))
        for method, values in every.items():
            report.add(method, _SIZE_MB, values)
    report.notes.append("apart: HTTP and operations are processes of their own, HTTP with ten times the CPU weight.")
    report.notes.append("again: the service was forked often, and has as many warm forks as there are in a batch.")
    return report


def _prepare(api: Api, parent: Timed) -> None:
    """Take a snapshot, as a service gets one that came to rest, and wait until it is prepared."""
    api.snapshot(parent.service_id)
    os.sync()
    time.sleep(_PREPARED_WITHIN_SECONDS)


def _measure_batch(running: Instance, parent: Timed, kind: str, every: dict[str, list[float]]) -> None:
    """Make and delete a batch of forks; add the milliseconds of all of them and of each one."""
    begun = time.perf_counter()
    forks = _fork_at_once(running, parent, _BATCH)
    every.setdefault(f"batch_of_20{kind}", []).append(1000 * (time.perf_counter() - begun))
    every.setdefault(f"one_of_20{kind}", []).extend(fork.answered_ms for fork in forks)
    _delete(running, forks)


def bench_density(options: Options) -> Report:
    """Idle forks beside each other: how long the first and the last take, and the memory of each."""
    report = Report("density")
    most = options.most or (20 if options.quick else _DENSITY)
    with instance(options.data, *options.drivers[:1]) as running, bare() as means:
        api = running.api()
        parent = api.create("parent")
        fill(means.programs, parent.service, _SIZE_MB)
        forks = [api.fork(parent.service_id, "NOW") for _ in range(most)]
        _await_quiet(running, forks)
        memory = _least_memory_mb(running, forks)
        times = [fork.answered_ms for fork in forks]
        report.add("first", _SIZE_MB, times[:1])
        report.add("last", _SIZE_MB, times[-1:])
        report.add("all", _SIZE_MB, times)
        report.ratio("last_to_first", times[-1], times[0])
        report.ratios["memory_mb_each"] = round(sum(memory) / len(memory), 2)
        report.ratios["forks"] = most
        _delete(running, forks)
    return report


def bench_space(options: Options) -> Report:
    """What a fork alone occupies when it is READY, and after a part of its rows has been changed."""
    if options.drivers == ("copy",):
        return bench_copied_space(options)
    report = Report("space")
    size_mb = options.sizes[0] if options.sizes else (_SIZE_MB if options.quick else 1000)
    with instance(options.data, *options.drivers[:1]) as running, bare() as means:
        api = running.api()
        parent = api.create("parent")
        fill(means.programs, parent.service, size_mb)
        fork = api.fork(parent.service_id, "NOW")
        report.add("now", size_mb, [fork.answered_ms])
        data = running.paths(fork.service_id).data
        report.ratios |= _occupied(data, "at_ready")
        with connect(fork.service) as connection:
            for percent in (1, 10):
                # Scattered rows: one page in a few is written again.
                connection.execute(
                    f"UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid % 100 < {percent}".encode()
                )
                connection.execute("CHECKPOINT")
                report.ratios |= _occupied(data, f"after_{percent}_percent")
    return report


def _fork_at_once(running: Instance, parent: Timed, count: int) -> list[Timed]:
    def fork() -> Timed:
        return running.api().fork(parent.service_id, "NOW")

    with ThreadPoolExecutor(count) as clients:
        asked = [clients.submit(fork) for _ in range(count)]
        return [one.result() for one in asked]


def _delete(running: Instance, forks: list[Timed]) -> None:
    with ThreadPoolExecutor(4) as clients:
        list(clients.map(lambda fork: running.api().delete(fork.service_id), forks))


def _occupied(data: Path, when: str) -> dict[str, float]:
    os.sync()
    wal = exclusive_bytes(data / WAL_DIRECTORY)
    rest = exclusive_bytes(data, Exclusions(emptied=frozenset((WAL_DIRECTORY,))))
    return {f"exclusive_mb_{when}": round(rest / _MIB, 2), f"exclusive_wal_mb_{when}": round(wal / _MIB, 2)}


def _await_quiet(running: Instance, forks: list[Timed]) -> None:
    """Wait until no fork is at work any more: after READY its statistics are collected and a snapshot is taken."""
    deadline = time.monotonic() + _SETTLE_SECONDS + len(forks)
    while any(b"[local]" in _titles(running, fork) for fork in forks) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(_SETTLE_SECONDS)


def _titles(running: Instance, fork: Timed) -> bytes:
    titles = b""
    for pid in _processes(running, fork)[1:]:
        with contextlib.suppress(OSError):  # it has ended since
            titles += Path(f"/proc/{pid}/cmdline").read_bytes()
    return titles


def _processes(running: Instance, fork: Timed) -> list[int]:
    server = int(running.paths(fork.service_id).pid_file.read_text().splitlines()[0])
    return [server, *(pid for pid, _ in children_of(server))]


def _least_memory_mb(running: Instance, forks: list[Timed]) -> list[float]:
    """Return the memory of each fork at rest: a session, or a worker of autovacuum, may be there at one look."""
    looks = []
    for _ in range(_LOOKS):
        looks.append([_memory_mb(running, fork) for fork in forks])
        time.sleep(_SETTLE_SECONDS)
    return [min(of_fork) for of_fork in zip(*looks, strict=True)]


def _memory_mb(running: Instance, fork: Timed) -> float:
    """Return the proportional set size of a fork's server and of all its processes."""
    return sum(_pss_kb(pid) for pid in _processes(running, fork)) / 1024


def _pss_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # a session that has ended since
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
