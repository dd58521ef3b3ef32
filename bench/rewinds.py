"""`rewind`: from the request to the first answer with the rows of the checkpoint, beside forks of the same service."""

import time
from typing import Any

import psycopg

from bench.api import Api, Timed, connect
from bench.bare import bare
from bench.data import fill
from bench.instance import Instance, instance
from bench.options import Options
from bench.report import Report

_QUICK_MB = (100,)
_ALL_MB = (100, 1000)
_REPEATS = 8
_REST_SECONDS = 0.5
_LOOK_SECONDS = 0.004


def bench_rewind(options: Options) -> Report:
    """Rewinds of a fork to its checkpoint, and forks of it as of now and of that checkpoint, in turn."""
    report = Report("rewind")
    with instance(options.data, *options.drivers[:1]) as running, bare() as means:
        api = running.api()
        for size_mb in options.sizes or (_QUICK_MB if options.quick else _ALL_MB):
            parent = api.create(f"parent-{size_mb}")
            fill(means.programs, parent.service, size_mb)
            api.snapshot(parent.service_id)
            subject = api.fork(parent.service_id, "NOW")
            samples = _measure(running, api, subject, options.repeats or _REPEATS)
            for method, values in samples.items():
                report.add(method, size_mb, values)
            for method in ("fork", "fork_of_checkpoint"):
                above, below = report.median("rewind", size_mb), report.median(method, size_mb)
                report.ratio(f"rewind_{size_mb}mb_vs_{method}", above, below)
    return report


def _measure(running: Instance, api: Api, subject: Timed, repeats: int) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {}

    def add(method: str, milliseconds: float) -> None:
        samples.setdefault(method, []).append(milliseconds)

    with connect(subject.service) as connection:
        connection.execute("CREATE TABLE step (n int)")
    checkpoint = _checkpoint(api, subject.service_id)
    for _ in range(repeats):
        with connect(subject.service) as connection:
            connection.execute("INSERT INTO step SELECT generate_series(1, 10000)")
        for method, body in (
            ("fork", {"fork_strategy": "NOW"}),
            ("fork_of_checkpoint", {"fork_strategy": "LAST_SNAPSHOT", "snapshot_id": checkpoint}),
        ):
            time.sleep(_REST_SECONDS)
            fork = api.timed(f"/{subject.service_id}/forkService", body)
            add(method, fork.answered_ms)
            time.sleep(_REST_SECONDS)
            api.delete(fork.service_id)
        time.sleep(_REST_SECONDS)
        for method, milliseconds in _rewind(running, api, subject).items():
            add(method, milliseconds)
    return samples


def _checkpoint(api: Api, service_id: str) -> str:
    made = api.call("POST", f"/{service_id}/checkpoints", {"name": "bench"})
    return str(api.await_snapshot(service_id, made["id"])["id"])


def _rewind(running: Instance, api: Api, subject: Timed) -> dict[str, float]:
    """Rewind once; return the milliseconds until it answers, until the restore is over, and of each of its steps."""
    begun = time.perf_counter()
    accepted: dict[str, Any] = api.call("POST", f"/{subject.service_id}/rewind", {"name": "bench"})
    while not _is_rewound(subject):
        time.sleep(_LOOK_SECONDS)
    answered = time.perf_counter()
    path = f"/{subject.service_id}/restores/{accepted['restore_id']}"
    while (found := api.call("GET", path))["status"] not in ("SUCCEEDED", "FAILED"):
        time.sleep(_LOOK_SECONDS)
    over = time.perf_counter()
    if found["status"] == "FAILED":
        raise RuntimeError(f"the rewind failed: {found}")
    api.wait_ready(subject.service_id)
    times = {
        "rewind": 1000 * (answered - begun),
        "rewind:over": 1000 * (over - begun),
        "rewind:stopped": 1000 * found["stopped_seconds"],
    }
    steps = running.rows(
        "SELECT step, seconds FROM operation_event WHERE operation_id = ? ORDER BY id", accepted["restore_id"]
    )
    for step, seconds in steps:
        times[f"rewind:{step}"] = times.get(f"rewind:{step}", 0.0) + 1000 * seconds
    return times


def _is_rewound(subject: Timed) -> bool:
    try:
        with connect(subject.service) as connection:
            return connection.execute("SELECT FROM step LIMIT 1").fetchone() is None
    except psycopg.Error:
        return False
