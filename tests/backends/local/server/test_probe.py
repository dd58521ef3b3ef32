"""Whether a server of PostgreSQL runs at an address, by what it answers."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.ports import free_port
from harness.waiting import BOUND_SECONDS
from ramet.backends.local.server.probe import Presence, presence

_ERROR = b"E\0\0\0\x30SFATAL\0VFATAL\0C%b\0Mno\0\0"


@contextmanager
def answering(*parts: bytes) -> Iterator[int]:
    """Listen on a port where each message of one client gets the next part, and the end after the last."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                for part in parts:
                    client.recv(4096)
                    client.sendall(part)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(BOUND_SECONDS)


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ((b"N", _ERROR % b"57P03"), Presence.CHANGES),
        ((b"N", b""), Presence.CHANGES),
        ((b"N", _ERROR % b"28000"), Presence.RUNS),
        ((b"N", b"R\0\0\0\x08\0\0\0\x05"), Presence.RUNS),
        ((), Presence.SILENT),
    ],
)
def test_a_server_that_cannot_be_connected_to_now_does_not_run(parts: tuple[bytes, ...], found: Presence) -> None:
    with answering(*parts) as port:
        assert presence("127.0.0.1", port, "app", "shop") is found


def test_where_nothing_listens_there_is_no_server() -> None:
    assert presence("127.0.0.1", free_port(), "app", "shop") is Presence.SILENT
    assert presence("no-such-host.invalid", 5432, "app", "shop") is Presence.SILENT
