"""What a restore drill does on the host: a server without a port, read to the last block."""

import os
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.sql import connections
from ramet.backends.local.wal import archive
from ramet.backends.local.wal.segment import Segment
from tests.backends.local.forks import append, paths_of, rows_of, run, run_fork, snapshot
from tests.backends.local.hosts import new_server


def throw_away(backend: LocalBackend, parent: Server) -> Server:
    """Recover a service to its latest time, without an endpoint."""
    snapshot_id, _ = snapshot(backend, parent)
    restore_time = append(backend, parent, 1)[0]
    server = replace(new_server(backend.instances), port=0)
    capture = backend.restore.capture(server, Source(parent, snapshot_id=snapshot_id, target=restore_time))
    assert capture is not None
    run_fork(backend, server, capture)
    return server


def complaints(backend: LocalBackend, server: Server) -> str:
    found: list[str] = []

    def is_over() -> bool:
        complained = backend.restore.verify_data(server, 0.2)
        found.extend([] if complained is None else [complained])
        return bool(found)

    eventually(is_over)
    return found[0]


def test_a_server_without_a_port_listens_on_no_address(backend: LocalBackend, parent: Server) -> None:
    server = throw_away(backend, parent)
    pid = int(paths_of(backend, server).pid_file.read_text().splitlines()[0])
    assert [found for found in psutil.Process(pid).net_connections("tcp") if found.status == "LISTEN"] == []
    assert rows_of(backend, server) == [1]


def test_sound_data_has_no_complaints(backend: LocalBackend, parent: Server) -> None:
    assert complaints(backend, throw_away(backend, parent)) == ""


def test_a_corrupt_table_is_reported(backend: LocalBackend, parent: Server) -> None:
    server = throw_away(backend, parent)
    paths = paths_of(backend, server)
    with connections.connect(paths) as connection:
        connection.execute("CREATE TABLE public.victim AS SELECT n FROM generate_series(1, 1000) n")
        connection.execute("CHECKPOINT")
        found = connection.execute("SELECT pg_relation_filepath('public.victim')").fetchone()
    assert found is not None
    assert not backend.instances.stop(server, 0)
    eventually(lambda: backend.instances.stop(server, 0.5))
    with (paths.data / str(found[0])).open("r+b") as file:
        file.seek(8192 + 4096)
        file.write(os.urandom(64))
    run(backend, server)
    assert "victim" in complaints(backend, server)


@pytest.fixture
def waiting(backend: LocalBackend, parent: Server) -> Path:
    """A segment that waits to be archived."""
    status = paths_of(backend, parent).data / "pg_wal" / "archive_status"
    return status / f"{Segment(1, 900).name}.ready"


def test_archiving_that_keeps_up_is_no_delay(backend: LocalBackend, parent: Server, waiting: Path) -> None:
    assert archive.delay(paths_of(backend, parent).data) is None
    waiting.touch()
    assert archive.delay(paths_of(backend, parent).data) is None
    waiting.unlink()


def test_a_segment_that_waits_for_minutes_is_a_delay(backend: LocalBackend, parent: Server, waiting: Path) -> None:
    waiting.touch()
    os.utime(waiting, (time.time() - 300, time.time() - 300))
    delay = archive.delay(paths_of(backend, parent).data)
    assert delay == "Archiving is behind: 1 WAL segments are waiting, the oldest for 5 minutes."
    waiting.unlink()
