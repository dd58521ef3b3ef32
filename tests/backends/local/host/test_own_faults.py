"""A fault of this process, such as no descriptor left, is never taken for the end of what it looks at."""

import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from harness.ports import free_port
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.process import identity, postgres
from ramet.backends.local.server import probe
from ramet.backends.local.sql import connections
from ramet.errors import Unavailable, Unseen
from ramet.machine import processes
from ramet.model.passwords import Secret
from tests.backends.local.forks import paths_of, run
from tests.backends.local.hosts import new_server

Look = Callable[[LocalBackend, Server], object]


@pytest.fixture
def pooled(backend: LocalBackend) -> Server:
    """A service that serves with its pooler."""
    server = new_server(backend.instances, Secret("secret"), pooler_port=free_port())
    backend.servers.initialize(server)
    run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    backend.servers.open(server)
    return server


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open nothing."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _pid(backend: LocalBackend, server: Server) -> int:
    pid = identity.find_server(paths_of(backend, server))
    assert pid is not None
    return pid


def test_a_server_whose_state_cannot_be_read_is_not_reported_as_down(backend: LocalBackend, pooled: Server) -> None:
    with no_more_files():
        with pytest.raises(Unseen, match="Too many open files"):
            backend.servers.inspect(pooled)
        with pytest.raises(Unseen, match="Too many open files"):
            backend.poolers.serves(pooled.service_id)
        with pytest.raises(Unseen), connections.connect(paths_of(backend, pooled)):
            pass
        with pytest.raises(Unseen):
            probe.ask("localhost", pooled.port, "tsdbadmin", "tsdb", tls=False)
        with pytest.raises(Unseen):
            backend.instances.is_open(pooled)
    assert backend.servers.inspect(pooled).serving
    assert backend.poolers.serves(pooled.service_id)


def test_an_error_while_reading_proc_does_not_mean_that_a_process_is_gone(
    backend: LocalBackend, pooled: Server
) -> None:
    paths, pid = paths_of(backend, pooled), _pid(backend, pooled)
    looks: list[Callable[[], object]] = [
        lambda: identity.find_server(paths),
        lambda: processes.record_of(pid),
        lambda: identity.processes_in(paths.data),
        lambda: identity.runs(pid, "postgres"),
        lambda: list(identity.children_of(pid)),
        lambda: postgres.is_ready(paths),
        lambda: postgres.running(paths),
        lambda: postgres.await_ready(paths, 0.1),
        lambda: postgres.stop(paths, 0.1),
    ]
    said = []
    with no_more_files():
        for number, look in enumerate(looks):
            try:
                said.append((number, look()))
            except OSError:
                continue
    assert said == []
    assert _pid(backend, pooled) == pid


def test_a_server_whose_state_is_unknown_is_not_started_a_second_time(backend: LocalBackend, pooled: Server) -> None:
    pid = _pid(backend, pooled)
    with no_more_files(), pytest.raises((OSError, Unavailable)):
        backend.servers.start(pooled)
    assert _pid(backend, pooled) == pid


def test_a_resize_that_cannot_ask_the_server_does_not_ask_for_a_restart(backend: LocalBackend, pooled: Server) -> None:
    with no_more_files(), pytest.raises((OSError, Unseen)):
        backend.servers.resize(pooled)


def test_an_endpoint_that_is_not_there_is_silent(tmp_path: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        assert probe.ask("127.0.0.1", taken.getsockname()[1], "a", "b", tls=False) is probe.Answer.SILENT
    assert probe.ask_on_socket(tmp_path / "none", "a", "b") is probe.Answer.SILENT
