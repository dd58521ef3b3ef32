"""`fixture`: until a test can query data of its own, by the fixtures of Ramet and by those of pytest-postgresql.

pytest-postgresql is measured where it is installed: its databases have the data that a suite loads, here with pgbench.
"""

import importlib
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.sql import SQL, Identifier

from bench.bare import Bare, bare
from bench.clonedb import DatabaseClones
from bench.data import fill
from bench.forks import room_for_copies
from bench.instance import Instance, instance
from bench.options import Options
from bench.report import Report
from ramet.client import Client
from ramet.endpoints import DATABASE
from ramet.kits.throwaway import Throwaway, throwaway_fork

_QUICK_MB = (10, 100)
_ALL_MB = (10, 100, 1000)
_REPEATS = 5
_PEER = "pytest_postgresql"
_QUERY = "SELECT count(*) FROM pgbench_branches"


def bench_fixture(options: Options) -> Report:
    """A fork for a test, a database in a fork for a test, and what the peer needs for the same data."""
    report = Report("fixture")
    with instance(options.data, *options.drivers[:1]) as running, running.client() as client, bare() as means:
        for size_mb in options.sizes or (_QUICK_MB if options.quick else _ALL_MB):
            repeats = options.repeats or _REPEATS
            _measure_ramet(report, running, client, means, size_mb, repeats)
            if importlib.util.find_spec(_PEER) is not None:
                with room_for_copies(running.pool) as place:
                    _measure_peer(report, means, place / "peer", size_mb, repeats)
            for above in ("ramet_database", _PEER, f"{_PEER}:load"):
                pair = report.median(above, size_mb), report.median("ramet_fork", size_mb)
                report.ratio(f"{above}_{size_mb}mb_vs_ramet_fork", *pair)
    report.notes.append(
        "ramet_database is CREATE DATABASE … TEMPLATE in a fork; load is what the peer pays once, with its server."
    )
    return report


def _measure_ramet(report: Report, running: Instance, client: Client, means: Bare, size_mb: int, repeats: int) -> None:
    api = running.api()
    parent = api.create(f"parent-{size_mb}")
    fill(means.programs, parent.service, size_mb)
    api.snapshot(parent.service_id)
    report.add("ramet_fork", size_mb, [_fork(client, parent.service_id) for _ in range(repeats)])
    with throwaway_fork(client, client.get_service(parent.service_id)) as fork:
        report.add("ramet_database", size_mb, [_database(fork) for _ in range(repeats)])


def _measure_peer(report: Report, means: Bare, data: Path, size_mb: int, repeats: int) -> None:
    """Measure the peer on a server of its own, whose superuser it needs to be."""
    means.initialize(data)
    with means.serving(data, ("max_wal_size=8GB",)) as started:
        source = DatabaseClones(means)
        loaded = _milliseconds(lambda: source.fill(size_mb))
        report.add(_PEER, size_mb, [_peer_database(means) for _ in range(repeats)])
        report.add(f"{_PEER}:load", size_mb, [started + loaded])


def _milliseconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begun)


def _answer(uri: str) -> None:
    with psycopg.connect(uri) as session:
        session.execute(_QUERY)


def _fork(client: Client, parent_id: str) -> float:
    """Return how long the fixture ramet_fork takes until its first answer."""
    parent, begun = client.get_service(parent_id), time.perf_counter()
    with throwaway_fork(client, parent) as fork:
        _answer(fork.uri)
        return 1000 * (time.perf_counter() - begun)


def _database(fork: Throwaway) -> float:
    """Return how long the fixture ramet_database takes until its first answer."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(fork.uri_of("postgres"), autocommit=True) as admin:

        def make() -> None:
            admin.execute(
                SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(Identifier(name), Identifier(DATABASE))
            )
            _answer(fork.uri_of(name))

        taken = _milliseconds(make)
        admin.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))
    return taken


def _peer_database(means: Bare) -> float:
    """Return how long the peer takes for the database of one test, of a template with the same data."""
    name, host = f"test_{uuid4().hex[:12]}", str(means.sockets)
    janitor: Any = importlib.import_module(f"{_PEER}.janitor").DatabaseJanitor(
        user="ramet", host=host, port=means.port, dbname=name, template_dbname="source"
    )

    def make() -> None:
        janitor.init()
        with psycopg.connect(host=host, port=means.port, user="ramet", dbname=name) as session:
            session.execute(_QUERY)

    taken = _milliseconds(make)
    janitor.drop()
    return taken
