"""Endpoints that outlive their servers: real clients wait while the server falls asleep and wakes up."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from harness.ports import free_port
from harness.waiting import BOUND_SECONDS, eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.model.passwords import new_password
from tests.backends.local.forks import destroy_all, run
from tests.backends.local.hosts import connect, new_server

PASSWORD = new_password()


@pytest.fixture(scope="module")
def backend(usual_backend: LocalBackend) -> LocalBackend:
    """One backend for the whole module, with one service."""
    return usual_backend


@pytest.fixture(scope="module")
def made(backend: LocalBackend) -> Iterator[Server]:
    found = new_server(backend.instances, PASSWORD, server_port=free_port())
    backend.servers.initialize(found)
    run(backend, found)
    backend.servers.secure(found, is_new=True, neutralize=False)
    backend.servers.open(found)
    yield found
    destroy_all(backend)
    assert not backend.endpoints.control.runs()
    assert "every server has its own endpoint" in dict(backend.host.describe())["endpoints"]


@pytest.fixture
def server(backend: LocalBackend, made: Server) -> Server:
    """The service, awake and without clients."""
    start(backend, made)
    return made


def start(backend: LocalBackend, server: Server) -> None:
    backend.servers.start(server, clients=True)
    eventually(lambda: backend.servers.await_ready(server, 0.5).ready)
    backend.servers.open(server)


def wake(backend: LocalBackend, server: Server) -> None:
    """Do what Ramet does when a client waits."""
    eventually(lambda: server.service_id in backend.endpoints.waiting(1.0))
    start(backend, server)


def ask(server: Server) -> object:
    with connect(server, PASSWORD) as connection:
        return connection.execute("SELECT 42").fetchone()


def test_fifty_clients_at_once_wait_for_a_server_that_sleeps(backend: LocalBackend, server: Server) -> None:
    assert ask(server) == (42,)
    assert dict(backend.host.describe())["endpoints"].endswith("services that fall asleep: 1.")
    eventually(lambda: backend.endpoints.fall_asleep(server))
    assert backend.endpoints.fall_asleep(server)  # again, as after a crash
    assert not backend.servers.inspect(server).serving
    with ThreadPoolExecutor(50) as pool:
        answers = [pool.submit(ask, server) for _ in range(50)]
        wake(backend, server)
        assert {answer.result(BOUND_SECONDS) for answer in answers} == {(42,)}
    assert not backend.endpoints.waiting(0.0)


def test_a_server_in_use_does_not_fall_asleep(backend: LocalBackend, server: Server) -> None:
    with connect(server, PASSWORD) as client:
        assert not backend.endpoints.fall_asleep(server)
        assert client.execute("SELECT 1").fetchone() == (1,)
    eventually(lambda: backend.endpoints.fall_asleep(server))


def test_only_the_beginning_of_a_session_wakes(backend: LocalBackend, server: Server) -> None:
    eventually(lambda: backend.endpoints.fall_asleep(server))
    with socket.create_connection(("localhost", server.port)) as scanner:
        scanner.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert scanner.recv(1) == b""
    cancel = bytes.fromhex("00000010 04d2162e 00000001 00000002")
    with socket.create_connection(("localhost", server.port)) as canceling:
        canceling.sendall(cancel)
        assert canceling.recv(1) == b""
    with closing(socket.create_connection(("localhost", server.port))):
        assert not backend.endpoints.waiting(0.1)
    assert not backend.servers.inspect(server).serving


@pytest.mark.parametrize("sslmode", ["require", "disable"])
def test_who_waits_in_vain_is_told_why(backend: LocalBackend, server: Server, sslmode: str) -> None:
    eventually(lambda: backend.endpoints.fall_asleep(server))
    found: list[str] = []

    def try_it() -> None:
        try:
            connect(server, PASSWORD, sslmode=sslmode)
        except psycopg.OperationalError as error:
            found.append(str(error))

    client = threading.Thread(target=try_it)
    client.start()
    eventually(lambda: server.service_id in backend.endpoints.waiting(1.0))
    backend.endpoints.refuse(server.service_id, "the disk is full", "Make room.")
    client.join(BOUND_SECONDS)
    assert "the disk is full" in found[0]
    assert "Make room." in found[0]


def test_the_process_of_the_endpoints_may_be_killed(backend: LocalBackend, server: Server) -> None:
    eventually(lambda: backend.endpoints.fall_asleep(server))
    backend.endpoints.control.end()
    with pytest.raises(psycopg.OperationalError, match="Connection refused"):
        ask(server)
    for _ in range(2):
        backend.endpoints.keep([], [server])
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, server)
        wake(backend, server)
        assert answer.result(BOUND_SECONDS) == (42,)
    backend.endpoints.control.end()
    backend.endpoints.keep([server], [])
    assert ask(server) == (42,)


def test_an_endpoint_closes_with_its_server(backend: LocalBackend, server: Server) -> None:
    other = replace(server, service_id="other12345", port=free_port())
    backend.endpoints.keep([], [other])
    for _ in range(2):
        backend.servers.stop(server)
        assert backend.host.port_is_free(server.port)
    assert list(backend.endpoints.list_open()) == [other.service_id]
    run(backend, server)
    backend.servers.open(server)
    assert ask(server) == (42,)
    backend.endpoints.close(other.service_id)


def test_a_long_answer_and_a_slow_client_pass_unharmed(backend: LocalBackend, server: Server) -> None:
    with connect(server, PASSWORD) as client:
        assert client.info.parameter_status("is_superuser") == "off"
        rows = client.execute("SELECT repeat('x', 1000000) FROM generate_series(1, 30)").fetchall()
        assert [len(str(row[0])) for row in rows] == [1_000_000] * 30
        with client.cursor().copy("COPY (SELECT repeat('y', 1000) FROM generate_series(1, 20000)) TO STDOUT") as copy:
            assert sum(len(bytes(block)) for block in copy) == 20_000 * 1001
