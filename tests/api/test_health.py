"""What orchestrators and load balancers ask, without credentials."""

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import NoReturn

import pytest

from harness.waiting import BOUND_SECONDS, eventually
from ramet.cli.host import probes
from ramet.cli.host.probes import answer_probes
from ramet.control.readiness import check_ready
from ramet.errors import Unavailable
from ramet.monitoring.instruments import Instruments
from ramet.monitoring.scrape import Access, Scrape
from ramet.store.database import Store
from tests.api.world import World


def test_a_process_that_reaches_its_store_is_ready(world: World) -> None:
    for path in ("/livez", "/healthz", "/readyz"):
        answer = world.client.get(path)
        assert (answer.status_code, answer.text) == (200, "ok\n")


def test_one_that_does_not_lives_and_is_not_ready(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "read", _unreachable)
    assert world.client.get("/livez").status_code == 200
    assert world.client.get("/readyz").status_code == 503


@pytest.fixture
def port(world: World) -> Iterator[int]:
    """Yield the port where a worker answers."""
    listening = socket.create_server(("127.0.0.1", 0))
    access = Access(None, loopback=True)
    scrape = Scrape(world.plane, world.projects, world.worker, Instruments("1"), access, has_services=False)
    with listening, answer_probes(listening, lambda: check_ready(world.plane), scrape):
        yield listening.getsockname()[1]


def test_a_worker_answers_the_same(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ("/livez", "/healthz", "/readyz", "/metrics", "/public/api/v1/projects")
    assert [_status(port, path) for path in paths] == [200, 200, 200, 200, 404]
    monkeypatch.setattr(Store, "read", _unreachable)
    assert [_status(port, path) for path in ("/livez", "/readyz")] == [200, 503]


def test_a_worker_answers_so_many_requests_at_a_time(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_MOST_REQUESTS", 2)
    with _connected(port), _connected(port) as second:
        with _connected(port) as third:
            assert third.recv(1) == b""
        second.shutdown(socket.SHUT_WR)
        assert second.recv(1) == b""
        eventually(lambda: _answers(port))


def test_a_worker_answers_others_while_one_client_has_many_connections(port: int) -> None:
    with ExitStack() as connections:
        for _ in range(probes._MOST_REQUESTS):
            connections.enter_context(_connected(port, "127.0.0.2"))
        assert _status(port, "/livez") == 200


def test_a_worker_ends_a_request_that_takes_too_long(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes._Handler, "timeout", None)
    monkeypatch.setattr(probes, "_REQUEST_SECONDS", 0.0)
    with _connected(port) as connection:
        connection.sendall(b"GET /livez")
        assert connection.recv(1) == b""


def _connected(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=BOUND_SECONDS, source_address=(source, 0))


def _answers(port: int) -> bool:
    try:
        return _status(port, "/livez") == 200
    except (ConnectionError, http.client.HTTPException):
        return False


def _unreachable(_: Store, *, settled: bool = False) -> NoReturn:
    raise Unavailable("STORE_UNAVAILABLE", "The store cannot be reached now")


def _status(port: int, path: str) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status
