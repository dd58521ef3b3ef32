"""`list`: the listing of a project with many services that have rows and no servers, beside the least it could cost."""

import base64
import contextlib
import http.client
import shutil
import sqlite3
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click
import msgspec
import psycopg

from bench.bare import bare
from bench.options import Options
from bench.report import Report, percentile
from harness.halves import answers
from harness.instance import Instance
from ramet.control.projects import Projects
from ramet.ids import new_id
from ramet.model.environment import Environment
from ramet.model.metrics import Usage
from ramet.model.passwords import Secret
from ramet.model.service import Origin, Service
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from ramet.store import services
from ramet.store.database import Store
from ramet.store.metrics import put_usage

_COUNTS = (10, 1000, 10_000)
_CROWD = 32
_PORT = 18899
_SECONDS = 3.0
_WARM = 3
_TURNS = 200
_LONGEST_SECONDS = 30.0
_FEWEST_TURNS = 10
_QUICK_COUNTS = (1000,)
_QUICK_LONGEST_SECONDS = 6.0
_KB = 1024
_MEASURED_AHEAD = timedelta(hours=1)  # nobody measures while it runs
_PAGES = {"console": "/console/", "console_search": "/console/?q=shop-99", "console_lineage": "/console/lineage"}
_PAGE_TURNS = 50
_QUERY = "SELECT * FROM service WHERE project_id = '{}' ORDER BY created_at, id"


@dataclass(frozen=True)
class _Key:
    project_id: str
    public_key: str
    secret: str


def bench_list(options: Options) -> Report:
    """Latency and rate of the listing at 10, 1,000 and 10,000 services, on both databases."""
    report = Report("list")
    shutil.rmtree(options.data, ignore_errors=True)
    options.data.mkdir(parents=True, mode=0o711)
    try:
        _measure(report, options, f"sqlite:///{options.data}/ramet.db", "sqlite")
        with bare() as means:
            means.initialize(options.data / "postgresql")
            with means.serving(options.data / "postgresql", ("max_connections=100",)):
                url = f"postgresql+psycopg://ramet@/postgres?host={means.sockets}&port=5999"
                _measure(report, options, url, "postgresql")
    finally:
        shutil.rmtree(options.data, ignore_errors=True)
    return report


def _measure(report: Report, options: Options, url: str, name: str) -> None:
    store = Store.open(url)
    try:
        key, have = _make_key(store), 0
        for count in options.sizes or (_QUICK_COUNTS if options.quick else _COUNTS):
            click.echo(f"list: {count} services on {name}", err=True)
            _insert(store, key.project_id, have, count)
            have = count
            _analyze(store)
            with _serving(options.data, url) as server:
                _alone(report, options, f"{name}:", count, key, url)
                _crowded(report, f"{name}:", count, key)
                _pages(report, options, f"{name}:", count, key, url)
                report.ratios[f"{name}_{count}_memory_mb"] = round(_memory_mb(server), 1)
    finally:
        store.close()


def _longest_seconds(options: Options) -> float:
    return _QUICK_LONGEST_SECONDS if options.quick else _LONGEST_SECONDS


def _alone(report: Report, options: Options, prefix: str, count: int, key: _Key, url: str) -> None:
    """Measure one connection and the floor in turns, so that both see the same machine."""
    listed: list[float] = []
    floor: list[float] = []
    lister, deadline = _lister(key), time.monotonic() + _longest_seconds(options)
    with _reader(url, options.data) as connection:
        for turn in range(_WARM + _TURNS):
            taken = lister.read(), _floor(connection, key.project_id)
            if turn >= _WARM:
                listed.append(taken[0])
                floor.append(taken[1])
            if len(listed) >= _FEWEST_TURNS and time.monotonic() > deadline:
                break
    _add(report, f"{prefix}floor", count, floor)
    _add(report, f"{prefix}1_connections", count, listed)
    name = f"{prefix[:-1]}_{count}"
    report.ratio(f"{name}_vs_floor", statistics.median(listed), statistics.median(floor))
    report.ratios[f"{name}_at_1_per_second"] = round(1000 * len(listed) / sum(listed), 1)


def _pages(report: Report, options: Options, prefix: str, count: int, key: _Key, url: str) -> None:
    """Measure pages of the console and the floor in turns."""
    cookie = _sign_in(key)
    pages = {name: _Reader(path, {"Cookie": cookie}) for name, path in _PAGES.items()}
    taken: dict[str, list[float]] = {name: [] for name in ("floor", *pages)}
    deadline = time.monotonic() + _longest_seconds(options)
    with _reader(url, options.data) as connection:
        while len(taken["floor"]) < _FEWEST_TURNS or (
            len(taken["floor"]) < _PAGE_TURNS and time.monotonic() < deadline
        ):
            taken["floor"].append(_floor(connection, key.project_id))
            for name, page in pages.items():
                taken[name].append(page.read())
    for name in pages:
        _add(report, f"{prefix}{name}", count, taken[name])
        ratio = f"{prefix[:-1]}_{count}_{name}_vs_floor"
        report.ratio(ratio, statistics.median(taken[name]), statistics.median(taken["floor"]))
        report.ratios[f"{prefix[:-1]}_{count}_{name}_kb"] = round(pages[name].size_bytes / _KB, 1)


def _crowded(report: Report, prefix: str, count: int, key: _Key) -> None:
    """Measure many connections that list over and over for a few seconds."""
    deadline = time.monotonic() + _SECONDS

    def client(_: int) -> list[float]:
        lister = _lister(key)
        taken = [lister.read()]
        while time.monotonic() < deadline:
            taken.append(lister.read())
        return taken

    begun = time.perf_counter()
    with ThreadPoolExecutor(_CROWD) as clients:
        every = [one for found in clients.map(client, range(_CROWD)) for one in found]
    elapsed = time.perf_counter() - begun
    _add(report, f"{prefix}{_CROWD}_connections", count, every)
    report.ratios[f"{prefix[:-1]}_{count}_at_{_CROWD}_per_second"] = round(len(every) / elapsed, 1)


def _add(report: Report, method: str, count: int, taken: list[float]) -> None:
    report.add(method, count, taken)
    report.add(f"{method}:p99", count, [percentile(taken, 0.99)])


class _Reader:
    """One connection that reads one path over and over."""

    def __init__(self, path: str, headers: dict[str, str]) -> None:
        self._path, self._headers = path, headers
        self._connection = http.client.HTTPConnection("127.0.0.1", _PORT, timeout=60)
        self.size_bytes = 0

    def read(self) -> float:
        """Read once; return the milliseconds."""
        begun = time.perf_counter()
        self._connection.request("GET", self._path, headers=self._headers)
        response = self._connection.getresponse()
        self.size_bytes = len(response.read())
        if response.status != http.client.OK:
            raise RuntimeError(f"status {response.status}")
        return 1000 * (time.perf_counter() - begun)


def _lister(key: _Key) -> _Reader:
    """Return a connection that lists a project's services."""
    pair = base64.b64encode(f"{key.public_key}:{key.secret}".encode()).decode()
    return _Reader(f"/public/api/v1/projects/{key.project_id}/services", {"Authorization": f"Basic {pair}"})


def _sign_in(key: _Key) -> str:
    """Return the cookie of a session in the console."""
    form = urlencode({"public_key": key.public_key, "secret_key": key.secret})
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", _PORT, timeout=60)) as connection:
        connection.request("POST", "/console/sign-in", form, {"Content-Type": "application/x-www-form-urlencoded"})
        return str(connection.getresponse().headers["set-cookie"]).split(";")[0]


@contextlib.contextmanager
def _reader(url: str, data: Path) -> Iterator[Any]:
    """Yield a connection of the database's own driver."""
    if url.startswith("sqlite"):
        connection: Any = sqlite3.connect(data / "ramet.db")
    else:
        connection = psycopg.connect(url.replace("+psycopg", ""), autocommit=True)
    with contextlib.closing(connection):
        yield connection


def _floor(connection: Any, project_id: str) -> float:
    """Return the milliseconds of reading a project's rows as they are and encoding them."""
    begun = time.perf_counter()
    cursor = connection.execute(_QUERY.format(project_id))
    names = [column[0] for column in cursor.description]
    msgspec.json.encode([dict(zip(names, row, strict=True)) for row in cursor.fetchall()])
    return 1000 * (time.perf_counter() - begun)


@contextlib.contextmanager
def _serving(root: Path, url: str) -> Iterator[int]:
    """Serve HTTP without anybody who would look for the servers; yield the pid."""
    server = Instance(root / "served", {"RAMET_DATABASE_URL": url, "RAMET_STORAGE_DRIVER": "copy"}, port=_PORT)
    server.root.mkdir(exist_ok=True)
    server.start("serve", ready=lambda: answers(_PORT))
    try:
        yield server.process.pid if server.process else 0
    finally:
        server.terminate()


def _make_key(store: Store) -> _Key:
    projects, now = Projects(store), datetime.now(UTC)
    project = projects.create_project(f"bench {new_id()}", now)
    key, secret = projects.create_key(project.id, "bench", now)
    return _Key(project.id, key.public_key, secret.reveal())


def _analyze(store: Store) -> None:
    """Gather the statistics that autovacuum gathers within a minute."""
    if store.is_postgresql:
        with store.write() as tx:
            tx.exec_driver_sql("ANALYZE")


def _insert(store: Store, project_id: str, have: int, count: int) -> None:
    """Add services until there are so many, with what they use; every second one is a fork, as they are in practice."""
    parent, used = new_id(), {}
    with store.write() as tx:
        for number in range(have, count):
            now = datetime.now(UTC)
            origin = Origin(project_id, parent, "shop", "NOW", None, None, None) if number % 2 else None
            service_id = new_id()
            used[service_id] = Usage(number % 300, 30 + number % 200, 40 + number % 3)
            services.insert_service(
                tx,
                Service(
                    id=service_id,
                    project_id=project_id,
                    name=f"shop-{number}",
                    region_code="local",
                    service_type=ServiceType.POSTGRES,
                    environment=Environment.DEV,
                    size=Size(),
                    volume_type="reflink",
                    host="localhost",
                    port=20000 + number,
                    pg_major=15,
                    created_at=now,
                    verifier=Secret("SCRAM-SHA-256$4096:none"),
                    ready_at=now,
                    origin=origin,
                ),
            )
        put_usage(tx, used, datetime.now(UTC) + _MEASURED_AHEAD)


def _memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / _KB
