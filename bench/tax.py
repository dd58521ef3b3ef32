"""`tax`: what Ramet's guards and settings cost the statements of a tenant.

The same statements run in turns in a service and in two servers of the same version that initdb made, with checksums,
whose only settings are the service's size of buffers and its certificate: the second one shows by how much equal
servers differ here. All are asked over TLS, by one client that does not wait for the disk. Ramet has ended by then: in
the pauses of these turns it would take snapshots, and each is a checkpoint. The CPU time is that of all processes of
the server, the archiver among them. A ratio is the median of those of the single turns.
"""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice, permutations
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench.api import connect
from bench.bare import Bare, bare
from bench.data import fill, run_pgbench
from bench.instance import Instance, instance
from bench.options import Options
from bench.report import Report

_SIZE_MB = 150
_REPEATS, _QUICK_REPEATS = 30, 5
_SECONDS = 2
_ROWS = 100_000
_PICK = f"\\set aid random(1, {_ROWS})\n"
_SCRIPTS = {
    "update": f"{_PICK}UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n",
    "insert": "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, 1, 1, now());\n",
    "loop": (
        "DO $$ BEGIN FOR n IN 1..1000 LOOP"
        " UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = n; END LOOP; END $$;\n"
    ),
}
_TPS = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)
_COUNT = re.compile(r"^number of transactions actually processed: (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class _Asked:
    """A server that is measured: what the functions for services need to know of it, and its first process."""

    service: Mapping[str, Any]
    pid_file: Path

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server's processes so far, those that have ended included."""
        postmaster = psutil.Process(int(self.pid_file.read_text().splitlines()[0]))
        try:
            return sum(sum(one.cpu_times()[:4]) for one in (postmaster, *postmaster.children()))
        except psutil.NoSuchProcess:  # a session that has just ended: the postmaster has its time now
            return self.cpu_seconds()


def bench_tax(options: Options) -> Report:
    """Transactions of a service and of two bare servers, in turns."""
    report = Report("tax")
    report.notes.append("milliseconds of a thousand transactions, and of CPU time of the server for them")
    with instance(options.data, *options.drivers[:1]) as running, bare() as means:
        made = running.api().create("shop").service
        twins = (_bare_twin(running, made, replace(means, port=means.port + number)) for number in (0, 1))
        with next(twins) as bare_one, next(twins) as other_bare:
            asked = _Asked(made, running.paths(made["service_id"]).pid_file)
            servers = {"service": asked, "bare": bare_one, "other_bare": other_bare}
            size_mb = (options.sizes or (_SIZE_MB,))[0]
            for server in servers.values():
                fill(means.programs, server.service, size_mb)
            running.kill()
            repeats = options.repeats or (_QUICK_REPEATS if options.quick else _REPEATS)
            for workload, arguments in _workloads(options.data).items():
                turns = islice(cycle(permutations(servers)), repeats)
                rounds = [{name: _measure(means.programs, servers[name], arguments) for name in turn} for turn in turns]
                _compare(report, workload, rounds, size_mb)
    return report


def _compare(report: Report, workload: str, rounds: Sequence[Mapping[str, tuple[float, float]]], size_mb: int) -> None:
    for index, measure in enumerate((workload, f"{workload}_cpu")):
        for name in rounds[0]:
            report.add(f"{measure}:{name}", size_mb, [one[name][index] for one in rounds])
        for ratio, name in ((f"{measure}_vs_bare", "service"), (f"{measure}_of_equal_servers", "other_bare")):
            report.ratio(ratio, statistics.median(one[name][index] / one["bare"][index] for one in rounds), 1.0)


def _workloads(root: Path) -> Mapping[str, list[str]]:
    """Return pgbench's arguments for each workload."""
    scripts = {}
    for name, script in _SCRIPTS.items():
        path = root / f"{name}.sql"
        path.write_text(script)
        scripts[name] = ["-f", str(path)]
    return {"simple-update": ["-N"], **scripts}


def _measure(programs: Path, server: _Asked, arguments: list[str]) -> tuple[float, float]:
    """Run a workload; return the milliseconds of a thousand transactions, and those of the server's CPU time."""
    before = server.cpu_seconds()
    said = run_pgbench(
        programs, server.service, "-n", "-c", "1", "-T", str(_SECONDS), "-M", "prepared", *arguments,
        PGOPTIONS="-c synchronous_commit=off",
    )  # fmt: skip
    tps, count = _TPS.search(said), _COUNT.search(said)
    if tps is None or count is None:
        raise RuntimeError(f"pgbench did not say how many transactions it made: {said[-500:]}")
    return 1e6 / float(tps[1]), 1e6 * (server.cpu_seconds() - before) / int(count[1])


@contextmanager
def _bare_twin(running: Instance, service: Mapping[str, Any], means: Bare) -> Iterator[_Asked]:
    """Run a bare server beside a service."""
    with connect(service) as connection:
        row = connection.execute("SHOW shared_buffers").fetchone()
    tls = running.paths(service["service_id"]).tls
    settings = [
        "listen_addresses=localhost",
        f"shared_buffers={row[0] if row else '32MB'}",
        "ssl=on",
        f"ssl_cert_file={tls / 'server.crt'}",
        f"ssl_key_file={tls / 'server.key'}",
    ]
    data = running.pool / f"bare-{means.port}"
    means.initialize(data)
    with means.serving(data, settings):
        with psycopg.connect(
            host=str(means.sockets), port=means.port, user="ramet", dbname="postgres", autocommit=True
        ) as connection:
            connection.execute("CREATE ROLE tsdbadmin LOGIN IN ROLE pg_checkpoint")
            connection.execute("CREATE DATABASE tsdb OWNER tsdbadmin")
        twin = {"endpoint": {**service["endpoint"], "port": means.port}, "initial_password": ""}
        yield _Asked(twin, data / "postmaster.pid")
