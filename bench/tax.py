"""`tax`: what Ramet's guards and settings cost the statements of a tenant.

The same statements run in turns in a service and in a server of the same version that initdb made, whose only settings
are the service's size of buffers and its certificate. Both are asked over TLS, by one client that does not wait for
the disk.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bench.api import connect
from bench.bare import Bare, bare
from bench.data import fill, run_pgbench
from bench.instance import Instance, instance
from bench.options import Options
from bench.report import Report

_SIZE_MB = 150
_REPEATS, _QUICK_REPEATS = 11, 3
_SECONDS = 5
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


def bench_tax(options: Options) -> Report:
    """Transactions of a service and of a bare server, in turns."""
    report = Report("tax")
    with instance(options.data, *options.drivers[:1] or ("auto",)) as running, bare() as means:
        made = running.api().create("shop").service
        with _bare_twin(running, made, means) as twin:
            size_mb = (options.sizes or (_SIZE_MB,))[0]
            for server in (made, twin):
                fill(means.programs, server, size_mb)
            repeats = options.repeats or (_QUICK_REPEATS if options.quick else _REPEATS)
            for workload, arguments in _workloads(options.data).items():
                taken: dict[str, list[float]] = {"service": [], "bare": []}
                for _ in range(repeats):
                    for name, server in (("service", made), ("bare", twin)):
                        taken[name].append(_transaction_ms(means.programs, server, arguments))
                for name, found in taken.items():
                    report.add(f"{workload}:{name}", size_mb, found)
                report.ratio(
                    f"{workload}_vs_bare", report.median(f"{workload}:service"), report.median(f"{workload}:bare")
                )
    return report


def _workloads(root: Path) -> Mapping[str, list[str]]:
    """Return pgbench's arguments for each workload."""
    scripts = {}
    for name, script in _SCRIPTS.items():
        path = root / f"{name}.sql"
        path.write_text(script)
        scripts[name] = ["-f", str(path)]
    return {"simple-update": ["-N"], **scripts}


def _transaction_ms(programs: Path, server: Mapping[str, Any], arguments: list[str]) -> float:
    said = run_pgbench(
        programs, server, "-n", "-c", "1", "-T", str(_SECONDS), "-M", "prepared", *arguments,
        PGOPTIONS="-c synchronous_commit=off",
    )  # fmt: skip
    found = _TPS.search(said)
    if found is None:
        raise RuntimeError(f"pgbench did not say how many transactions it made: {said[-500:]}")
    return 1000 / float(found[1])


@contextmanager
def _bare_twin(running: Instance, service: Mapping[str, Any], means: Bare) -> Iterator[Mapping[str, Any]]:
    """Run a bare server beside a service; yield what the functions for services need to know of it."""
    with connect(service) as connection:
        row = connection.execute("SHOW shared_buffers").fetchone()
    tls = running.paths(service["service_id"]).tls
    settings = [
        "listen_addresses=127.0.0.1",
        f"shared_buffers={row[0] if row else '32MB'}",
        "ssl=on",
        f"ssl_cert_file={tls / 'server.crt'}",
        f"ssl_key_file={tls / 'server.key'}",
    ]
    data = running.pool / "bare-twin"
    means.initialize(data)
    with means.serving(data, settings):
        with psycopg.connect(
            host=str(means.sockets), port=means.port, user="ramet", dbname="postgres", autocommit=True
        ) as connection:
            connection.execute("CREATE ROLE tsdbadmin LOGIN IN ROLE pg_checkpoint")
            connection.execute("CREATE DATABASE tsdb OWNER tsdbadmin")
        yield {"endpoint": {"host": "127.0.0.1", "port": means.port}, "initial_password": ""}
