"""Hostile clients do not stop the service, and a server that stops serving is reported."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from harness.waiting import eventually
from prove.hostile_clients import HostileClients
from ramet.cli.host.http_protocol import Bounds
from tests.cli.served import Served, serving


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(Bounds(head_seconds=1)) as made:
        yield made


def _hostile_clients(address: tuple[str, int]) -> HostileClients:
    return HostileClients(f"http://{address[0]}:{address[1]}", half_open=30)


def test_hostile_clients_do_not_stop_the_service(served: Served) -> None:
    hostile = _hostile_clients(served.address)
    with hostile.running():
        eventually(lambda: hostile.missing() == [] or hostile.faults != [])
    assert hostile.faults == []
    assert hostile.missing() == []


def test_a_client_that_is_not_served_is_a_fault() -> None:
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        hostile = _hostile_clients(bound.getsockname())
        with hostile.running():
            eventually(lambda: any("not served" in fault for fault in hostile.faults))
    assert hostile.missing()


def test_a_host_other_than_loopback_is_refused() -> None:
    with pytest.raises(ValueError, match="loopback"):
        _ = HostileClients("http://192.0.2.1:80").address
