"""Stopping a server."""

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.process import postgres
from ramet.backends.local.process.daemon import Daemon
from ramet.backends.local.process.identity import children_of
from ramet.backends.local.restore import secured_copy
from ramet.backends.local.server import instances, sessions
from ramet.backends.local.sql import connections
from ramet.backends.local.upgrades import cluster
from ramet.errors import Unavailable, Unseen
from tests.backends.local import forks
from tests.backends.local.hosts import new_server
from tests.backends.local.segments import DISK_FAULTS, make_unreadable, refuse_removal

_Act = Callable[[LocalBackend, Server], None]
_MUCH = "CREATE TABLE public.much AS SELECT n FROM generate_series(1, 500000) AS n"


def test_a_server_is_stopped_that_listens_elsewhere_than_is_recorded(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is after the restore of an older backup of the store."""
    monkeypatch.setattr(instances, "_OPEN_WITHIN_SECONDS", 0.2)
    backend.servers.stop(replace(parent, port=free_port()))
    assert postgres.running(backend.instances.paths(parent.service_id)) is None


def test_a_server_whose_stop_failed_after_it_turned_clients_away_is_seen_closed_until_it_is_opened(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    backend.servers.open(parent)
    assert not backend.servers.inspect(parent).is_closed
    with monkeypatch.context() as patched:
        patched.setattr(sessions, "end_all", fail)
        with pytest.raises(OSError, match="Input/output error"):
            backend.servers.stop(parent)
    seen = backend.servers.inspect(parent)
    assert (seen.serving, seen.is_closed) == (True, True)
    assert not backend.instances.is_open(parent)
    backend.servers.start(parent, clients=True)
    backend.servers.open(parent)
    assert not backend.servers.inspect(parent).is_closed
    assert backend.instances.is_open(parent)


@pytest.mark.parametrize("number", DISK_FAULTS)
def test_data_that_the_disk_cannot_show_is_not_taken_for_lost(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with monkeypatch.context() as patched:
        make_unreadable(patched, backend.instances.paths(parent.service_id).data, number)
        with pytest.raises(Unseen):
            backend.servers.inspect(parent)
        with pytest.raises(OSError, match=os.strerror(number)):
            backend.servers.start(parent, clients=True)


@pytest.mark.parametrize("name", ["archive/broken", "tls/broken", "pooler/broken", "process.json", "start.lock"])
def test_a_file_that_the_disk_refuses_to_remove_is_all_that_is_left_of_a_service(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    server = forks.create(backend)
    paths = backend.instances.paths(server.service_id)
    broken = paths.root / name
    broken.parent.mkdir(exist_ok=True)
    broken.touch()
    with monkeypatch.context() as patched:
        refuse_removal(patched, broken.name, errno.EUCLEAN)
        with pytest.raises(OSError, match=os.strerror(errno.EUCLEAN)):
            backend.servers.destroy(server.service_id)
    assert [path for path in paths.root.rglob("*") if not path.is_dir()] == [broken]
    backend.servers.destroy(server.service_id)
    assert not paths.root.exists()


@pytest.mark.parametrize(
    ("directory", "owner", "act"),
    [
        ("data.after", cluster, "end_all_in"),
        ("snapshots/any/securing", secured_copy, "_end"),
        ("pooler", Daemon, "end"),
        ("data", postgres, "kill"),
    ],
)
def test_nothing_more_is_removed_of_a_service_where_the_disk_does_not_show_whether_something_runs(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, directory: str, owner: object, act: str
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    paths = backend.instances.paths("unseen0000")
    (paths.root / directory).mkdir(parents=True)
    with monkeypatch.context() as patched:
        patched.setattr(owner, act, fail)
        with pytest.raises(Unseen):
            backend.servers.destroy(paths.service_id)
    assert (paths.root / directory).is_dir()
    backend.servers.destroy(paths.service_id)
    assert not paths.root.exists()


def _kill_server(backend: LocalBackend, server: Server) -> None:
    assert postgres.kill(forks.paths_of(backend, server), 10)
    backend.instances.start(server)


def _kill_wal_writer(backend: LocalBackend, server: Server) -> None:
    (writer,) = (pid for pid, role in _processes(backend, server) if role == "walwriter")
    os.kill(writer, signal.SIGKILL)


def _processes(backend: LocalBackend, server: Server) -> list[tuple[int, str]]:
    found = postgres.running(forks.paths_of(backend, server))
    return [] if found is None else [(pid, title.rpartition(": ")[2]) for pid, title in children_of(found)]


def _halt(backend: LocalBackend, server: Server) -> None:
    backend.servers.halt(server)


def _restart(backend: LocalBackend, server: Server) -> None:
    backend.instances.restart(server)


@pytest.mark.parametrize(
    ("crash", "stop"), [(_kill_server, _halt), (_kill_wal_writer, _halt), (_kill_wal_writer, _restart)]
)
def test_a_server_that_recovers_is_stopped_when_it_has_recovered(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch, crash: _Act, stop: _Act
) -> None:
    paths = forks.paths_of(backend, parent)
    with connections.connect(paths) as connection:
        connection.execute(_MUCH)
    crash(backend, parent)
    recovering = list[int]()

    def is_held() -> bool:
        recovering.extend(pid for pid, role in _processes(backend, parent) if role.startswith("startup"))
        for pid in recovering:
            os.kill(pid, signal.SIGSTOP)
        return bool(recovering)

    eventually(is_held, pause_seconds=0)  # it recovers for much longer than a look takes
    try:
        monkeypatch.setattr(instances, "_STOP_SECONDS", 0.2)
        for _ in range(2):
            with pytest.raises(Unavailable, match=r"is still (starting|recovering): .+, work \d+"):
                stop(backend, parent)
            assert b"stopping" not in paths.pid_file.read_bytes()
        monkeypatch.undo()
    finally:
        os.kill(recovering[0], signal.SIGCONT)
    stop(backend, parent)
    assert postgres.is_ready(paths) is (stop is _restart)


def test_the_read_only_roles_of_a_removed_service_are_forgotten(backend: LocalBackend) -> None:
    server, roles = new_server(backend.instances), backend.instances.read_only_roles
    roles.enforce(forks.paths_of(backend, server))
    assert list(roles._observed) == [server.service_id]
    backend.servers.destroy(server.service_id)
    assert not roles._observed
