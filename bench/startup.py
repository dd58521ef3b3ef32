"""`startup`: commands from the prompt to their exit, and the first statement in the fork that one of them has made.

Beside them, in turns: Python alone, the same fork by requests on an open connection, the fork of a service that is
forked so often that it keeps warm ones, and the same statement once more.
Rows named `…:cpu` are the CPU time of the command itself.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.bare import Bare, bare
from bench.data import fill
from bench.instance import Instance, instance
from bench.options import Options
from bench.report import Report

_SIZE_MB = 1000
_REPEATS, _QUICK_REPEATS = 20, 5
_REST_SECONDS = 1.0
_LISTED = 10
_PARENT, _TEMPLATE = "shop", "template"
_OFTEN = 10
_WARM = 3
_RAMET = (str(Path(sys.executable).with_name("ramet")),)
_FORK = (*_RAMET, "service", "fork", "--now", "-o", "json")


def bench_startup(options: Options) -> Report:
    """Commands as a shell runs them, and psql."""
    report = Report("startup")
    driver = options.drivers[:1]
    size_mb = (options.sizes or (100 if options.quick else _SIZE_MB,))[0]
    taken: dict[str, list[float]] = {}
    with instance(options.data, *driver, RAMET_AUTOMATIC_WARM_FORKS=str(_WARM)) as running, bare() as means:
        api = running.api()
        parent, template = api.create(_PARENT), api.create(_TEMPLATE)
        for each in (parent, template):
            fill(means.programs, each.service, size_mb)
        api.call("PUT", f"/{parent.service_id}/warmForks", {"size": 0})
        for _ in range(_OFTEN):
            api.delete(api.fork(template.service_id, "NOW").service_id)
        for number in range(_LISTED):
            api.create(f"{_PARENT}-{number}")
        environ = {**os.environ, "RAMET_CREDENTIALS_FILE": str(running.credentials_file), "HOME": str(options.data)}
        for _ in range(options.repeats or (_QUICK_REPEATS if options.quick else _REPEATS)):
            api.await_warm(template.service_id, _WARM)
            _turn(running, means, parent.service_id, environ, taken)
    for method, found in taken.items():
        report.add(method, size_mb, found)
    for method in ("version", "list"):
        report.ratio(f"{method}_cpu_vs_python", report.median(f"{method}:cpu"), report.median("python:cpu"))
    report.ratio("fork_vs_requests", report.median("fork"), report.median("requests"))
    report.ratio("psql_first_vs_again", report.median("psql_first"), report.median("psql_again"))
    return report


def _turn(
    running: Instance, means: Bare, parent_id: str, environ: Mapping[str, str], taken: dict[str, list[float]]
) -> None:
    _timed("python", [sys.executable, "-c", "pass"], environ, taken)
    _timed("version", [*_RAMET, "--version"], environ, taken)
    _timed("list", [*_RAMET, "service", "list"], environ, taken)
    api = running.api()
    time.sleep(_REST_SECONDS)
    made = api.fork(parent_id, "NOW")
    taken.setdefault("requests", []).append(made.ready_ms)
    api.delete(made.service_id)
    time.sleep(_REST_SECONDS)
    fork = json.loads(_timed("fork", [*_FORK, _PARENT], environ, taken))
    for method in ("psql_first", "psql_again"):
        _timed(method, _psql(means, fork), {**environ, "PGPASSWORD": fork["initial_password"]}, taken)
    api.delete(fork["service_id"])
    time.sleep(_REST_SECONDS)
    warm = json.loads(_timed("fork_warm", [*_FORK, _TEMPLATE], environ, taken))
    api.delete(warm["service_id"])


def _psql(means: Bare, service: Mapping[str, Mapping[str, object]]) -> list[str]:
    endpoint = service["endpoint"]
    address = f"host={endpoint['host']} port={endpoint['port']} user=tsdbadmin dbname=tsdb sslmode=require"
    return [means.program("psql"), "-X", "-c", "select 1", address]


def _timed(method: str, command: Sequence[str], environ: Mapping[str, str], taken: dict[str, list[float]]) -> str:
    """Run a command, record its time and its CPU time, and return what it printed."""
    before, begun = _cpu_seconds(), time.perf_counter()
    done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    taken.setdefault(method, []).append(1000 * (time.perf_counter() - begun))
    taken.setdefault(f"{method}:cpu", []).append(1000 * (_cpu_seconds() - before))
    return done.stdout


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
