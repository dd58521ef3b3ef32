"""What orchestrators and load balancers ask, without credentials."""

import http.client
import socket
from contextlib import closing
from typing import NoReturn

import pytest

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


def test_a_worker_answers_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    access = Access(None, loopback=True)
    scrape = Scrape(world.plane, world.projects, world.worker, Instruments("1"), access, has_services=False)
    with listening, answer_probes(listening, lambda: check_ready(world.plane), scrape):
        port = listening.getsockname()[1]
        paths = ("/livez", "/healthz", "/readyz", "/metrics", "/public/api/v1/projects")
        assert [_status(port, path) for path in paths] == [200, 200, 200, 200, 404]
        monkeypatch.setattr(Store, "read", _unreachable)
        assert [_status(port, path) for path in ("/livez", "/readyz")] == [200, 503]


def _unreachable(_: Store) -> NoReturn:
    raise Unavailable("STORE_UNAVAILABLE", "The store cannot be reached now")


def _status(port: int, path: str) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status
