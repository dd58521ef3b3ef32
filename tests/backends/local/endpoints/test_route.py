"""One endpoint without its process: who waits is refused, whatever has become of the service's files."""

import asyncio
import struct
from pathlib import Path

import pytest

from ramet.backends.local.endpoints.route import Absent, Route
from ramet.backends.local.endpoints.sessions import Client

_TLS_REQUEST = struct.pack("!II", 8, 80877103)
_STARTUP = struct.pack("!II", 9, 3 << 16) + b"\0"


class Connection(asyncio.Transport):
    """What was written to a client, and whether it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True


def connected(route: Route, sent: bytes = b"") -> tuple[Client, Connection]:
    """Return a client of an endpoint that is asleep, and its connection."""
    client, connection = route.accept(), Connection()
    client.connection_made(connection)
    if sent:
        client.data_received(sent)
    return client, connection


@pytest.mark.parametrize(("sent", "waits"), [(b"", False), (_STARTUP[:5], False), (_STARTUP, True)])
def test_who_does_not_ask_for_a_session_in_time_is_ended(sent: bytes, waits: bool) -> None:
    route = Route([], 5432, 5433, None, lambda: None)
    route.hold()
    client, connection = connected(route, sent)
    route.refuse_overdue(Absent())
    assert not connection.is_closed
    client._since -= 16
    route.refuse_overdue(Absent())
    assert connection.is_closed is not waits
    assert (client in route.clients) is waits
    assert not connection.written


def test_of_too_many_clients_the_one_that_is_silent_longest_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ramet.backends.local.endpoints.route._MOST_CLIENTS", 3)
    route = Route([], 5432, 5433, None, lambda: None)
    route.hold()
    (_, waiting), (_, silent), (later, asking) = connected(route, _STARTUP), connected(route), connected(route)
    newest, another = connected(route)
    assert [each.is_closed for each in (waiting, silent, asking, another)] == [False, True, False, False]
    for client in (later, newest):
        client.data_received(_STARTUP)
    _, refused = connected(route)
    assert [each.is_closed for each in (waiting, asking, another, refused)] == [False, False, False, True]
    assert len(route.clients) == 3
    assert route.is_wanted()


def test_a_client_is_refused_without_tls_when_the_certificate_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_text("no certificate")

    async def refused(certificate: str) -> Connection:
        route, connection = Route([], 5432, 5433, [certificate] * 2, lambda: None), Connection()
        route.hold()
        client = route.accept()
        client.connection_made(connection)
        client.data_received(_TLS_REQUEST)
        route.close()
        client.data_received(_STARTUP)
        return connection

    for name in ("absent", "damaged"):
        connection = asyncio.run(refused(str(tmp_path / name)))
        assert connection.written.startswith(b"N")
        assert b"the service was paused or deleted" in connection.written
        assert connection.is_closed
