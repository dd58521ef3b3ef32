"""The siege of `script/prove storm` is withstood by Ramet's HTTP, and told of where it is not."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from harness.waiting import eventually
from prove.siege import Siege
from ramet.cli.host.http_protocol import Bounds
from tests.cli.served import Served, serving


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(Bounds(head_seconds=1)) as made:
        yield made


def _siege_of(address: tuple[str, int]) -> Siege:
    return Siege(f"http://{address[0]}:{address[1]}", half_open=30)


def test_service_goes_on_under_siege(served: Served) -> None:
    siege = _siege_of(served.address)
    with siege.laid():
        eventually(lambda: siege.missing() == [] or siege.faults != [])
    assert siege.faults == []
    assert siege.missing() == []


def test_a_client_that_is_not_served_is_a_fault() -> None:
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        siege = _siege_of(bound.getsockname())
        with siege.laid():
            eventually(lambda: any("not served" in fault for fault in siege.faults))
    assert siege.missing()


def test_no_other_host_is_besieged() -> None:
    with pytest.raises(ValueError, match="only loopback"):
        _ = Siege("http://192.0.2.1:80").address
