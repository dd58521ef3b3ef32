"""Services of a whole local backend for tests: made, forked, asked for their rows, and gone at the end."""

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from harness.waiting import eventually
from ramet.backends.interface.values import Capture, Server, SnapshotFacts, Source
from ramet.backends.local.backend import LocalBackend, open_backend
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.inventory import LocalInventory
from ramet.backends.local.process.identity import processes_in
from ramet.backends.local.restore import fetched, snapshots
from ramet.backends.local.sql import connections
from ramet.ids import new_id
from tests.backends.local.hosts import data_root, new_server
from tests.backends.local.pools import make_pool

_MOST_PREPARATIONS = 15  # where others use the CPUs, this process is late


@contextlib.contextmanager
def make_backend(driver: str, archive_url: str = "") -> Iterator[LocalBackend]:
    """Open a backend in a fresh data root; at the end all its services are destroyed."""
    with data_root() as root, make_pool(root, driver):
        backend = open_backend(root, archive_url=archive_url)
        try:
            yield backend
        finally:
            destroy_all(backend)
            shutil.rmtree(backend.instances.layout.sockets, ignore_errors=True)


def services_of(backend: LocalBackend) -> list[str]:
    """Return the ids of the services that have anything in the pool."""
    layout = backend.instances.layout
    directories = [path.name for path in layout.services.iterdir()] if layout.services.is_dir() else []
    return sorted({*directories, *fetched.children_with_downloads(layout)})


def destroy_all(backend: LocalBackend, but: frozenset[str] = frozenset()) -> None:
    """Destroy every service but those with some ids, and look that the host holds nothing else then."""
    with contextlib.ExitStack() as ends:  # what cannot be destroyed keeps nothing else running
        for service_id in set(services_of(backend)) - but:
            ends.callback(backend.servers.destroy, service_id)
    assert set(services_of(backend)) <= but
    assert not [found for found in LocalInventory(backend).resources() if found.service_id not in but]


def paths_of(backend: LocalBackend, server: Server) -> ServicePaths:
    return backend.instances.paths(server.service_id)


def create(backend: LocalBackend) -> Server:
    """Make a service with a ledger and let it run, closed to clients."""
    server = new_server(backend.instances)
    backend.servers.initialize(server)
    run(backend, server)
    with connections.connect(paths_of(backend, server)) as connection:
        connection.execute("CREATE TABLE public.ledger (n int PRIMARY KEY, at timestamptz DEFAULT clock_timestamp())")
    return server


def run(backend: LocalBackend, server: Server, *, first: bool = False) -> None:
    """Start a server and wait until it is ready."""
    backend.servers.start(server, first=first)
    eventually(lambda: backend.servers.await_ready(server, 0.5).ready)


def recover(backend: LocalBackend, server: Server, capture: Capture) -> dict[str, object]:
    """Recover what was captured, up to the proof of its stop point; return what was found."""
    found: list[dict[str, object]] = []

    def is_over() -> bool:
        recovery = backend.restore.recover(server, capture, 0.5)
        found.extend([] if recovery.facts is None else [recovery.facts])
        return bool(found)

    eventually(is_over)
    return found[0]


def append(backend: LocalBackend, server: Server, *numbers: int) -> list[datetime]:
    """Append rows to the ledger, a transaction each; return their commit timestamps."""
    with connections.connect(paths_of(backend, server)) as connection:
        for number in numbers:
            connection.execute("INSERT INTO public.ledger (n) VALUES (%s)", (number,))
        rows = connection.execute(
            "SELECT n, pg_xact_commit_timestamp(xmin) FROM public.ledger WHERE n = ANY(%s)", (list(numbers),)
        ).fetchall()
    committed = dict(rows)
    return [committed[number] for number in numbers]


def rows_of(backend: LocalBackend, server: Server) -> list[int]:
    """Return the numbers in the ledger."""
    with connections.connect(paths_of(backend, server)) as connection:
        return [row[0] for row in connection.execute("SELECT n FROM public.ledger ORDER BY n").fetchall()]


def committed_until(backend: LocalBackend, server: Server, restore_time: datetime) -> list[int]:
    """Return the numbers whose transactions committed at or before a time, according to their own server."""
    with connections.connect(paths_of(backend, server)) as connection:
        found = connection.execute(
            "SELECT n FROM public.ledger WHERE pg_xact_commit_timestamp(xmin) <= %s ORDER BY n", (restore_time,)
        )
        return [row[0] for row in found.fetchall()]


def snapshot(backend: LocalBackend, server: Server, *, paused: bool = False) -> tuple[str, SnapshotFacts]:
    """Take a snapshot; return its id and what it holds."""
    snapshot_id = new_id()
    facts = backend.restore.take_snapshot(server, snapshot_id, paused)
    assert facts is not None
    return snapshot_id, facts


def _is_left(directory: Path) -> bool:
    return not processes_in(directory)


def killed_preparation(backend: LocalBackend, server: Server, snapshot_id: str) -> Path:
    """Begin to prepare a snapshot, and kill the recovery; return the unfinished copy."""
    directory = snapshots.directory_of(paths_of(backend, server), snapshot_id)
    for _ in range(_MOST_PREPARATIONS):
        backend.restore.prepare_snapshot(server, snapshot_id, 0.0, 0)
        for unfinished in directory.glob("prepared*.unfinished"):
            for pid in processes_in(unfinished):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    eventually(partial(_is_left, unfinished))
                    return unfinished
        backend.restore.discard_preparation(server.service_id, snapshot_id)
    raise AssertionError(f"each of {_MOST_PREPARATIONS} recoveries was over before it could be killed")


def run_fork(backend: LocalBackend, server: Server, capture: Capture | None) -> dict[str, object]:
    """Recover what was captured and start its server; return what recovery found."""
    assert capture is not None
    found = recover(backend, server, capture)
    run(backend, server, first=True)
    return found


@dataclass(frozen=True)
class Forked:
    """A fork that runs, and what was found on its way."""

    server: Server
    capture: Capture
    recovery: dict[str, object]


def fork(
    backend: LocalBackend,
    parent: Server,
    snapshot_id: str | None = None,
    target: datetime | None = None,
    *,
    paused: bool = False,
    neutralize: bool | None = None,
) -> Forked:
    """Fork a service up to the proof of its stop point; it is not secured yet, unless that was done in advance."""
    child = new_server(backend.instances)
    source = Source(parent, paused, snapshot_id, target, neutralize=neutralize)
    captured = backend.restore.capture(child, source)
    assert captured is not None
    return Forked(child, captured, run_fork(backend, child, captured))


@dataclass
class Writer:
    """A client that appends numbered rows as fast as it can; `acknowledged` grows with each commit."""

    paths: ServicePaths
    first: int
    acknowledged: list[tuple[int, datetime]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def write(self) -> None:
        number = self.first
        with connections.connect(self.paths) as connection:
            while not self._stop.is_set():
                connection.execute("INSERT INTO public.ledger (n) VALUES (%s)", (number,))
                self.acknowledged.append((number, datetime.now(UTC)))
                number += 1

    def stop(self) -> None:
        self._stop.set()


@contextlib.contextmanager
def writing(backend: LocalBackend, server: Server, first: int) -> Iterator[Writer]:
    """Let a client append rows while the body runs."""
    writer = Writer(paths_of(backend, server), first)
    thread = threading.Thread(target=writer.write)
    thread.start()
    try:
        eventually(lambda: len(writer.acknowledged) > 20)
        yield writer
    finally:
        writer.stop()
        thread.join(30)


def digest_of(directory: Path) -> dict[str, bytes]:
    """Return the content of all files of a directory."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()}


def now() -> datetime:
    """Return a time that has passed when this returns."""
    restore_time = datetime.now(UTC)
    while datetime.now(UTC) <= restore_time:
        time.sleep(0)
    return restore_time


def exchange(backend: LocalBackend, server: Server, snapshot_id: str) -> tuple[Server, Server, str]:
    """Give a service the data of a snapshot of it; return the copy, the one with the data before, and the snapshot."""
    copy, previous = replace(new_server(backend.instances), port=0), replace(new_server(backend.instances), port=0)
    replacements = backend.replacements
    captured = backend.restore.capture(copy, Source(server, snapshot_id=snapshot_id))
    assert captured is not None
    captured = replacements.reserve_timeline(copy, server.service_id, captured)
    eventually(lambda: backend.restore.recover(copy, captured, 0.5).facts is not None)
    eventually(lambda: replacements.leave_timeline(copy, server.service_id, 0.5) is None)
    replacements.close(copy)
    first_id, _facts = snapshot(backend, copy, paused=True)
    replacements.release(server, copy)
    replacements.move_data(server, previous)
    replacements.move_data(copy, server, [first_id])
    return copy, previous, first_id
