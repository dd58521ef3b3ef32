"""A source without a server behind it: it logs everybody in, and answers each query with one value."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

from ramet.backends.interface.sources import SourceAddress

NUMBER, TEXT = 23, 25  # pg_type.oid


@contextlib.contextmanager
def odd_source(oid: int, value: bytes) -> Iterator[SourceAddress]:
    """Yield the address of a source whose answers are a row with one column of this type and text."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, _row(oid, value)), daemon=True).start()
        yield SourceAddress("127.0.0.1", listener.getsockname()[1], "shop", "app", "disable")


def _accept(listener: socket.socket, row: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_answer, args=(client, row), daemon=True).start()


def _answer(client: socket.socket, row: bytes) -> None:
    with client, contextlib.suppress(OSError):
        client.recv(4096)
        client.sendall(_message(b"R", struct.pack("!i", 0)) + _message(b"Z", b"I"))
        while (asked := client.recv(65536)) and asked[:1] in b"PQ":
            begun = _message(b"1") + _message(b"2") if asked[:1] == b"P" else b""
            client.sendall(begun + row + _message(b"C", b"SELECT 1\0") + _message(b"Z", b"I"))


def _row(oid: int, value: bytes) -> bytes:
    column = b"odd\0" + struct.pack("!ihihih", 0, 0, oid, -1, -1, 0)
    fields = struct.pack("!hi", 1, len(value)) + value
    return _message(b"T", struct.pack("!h", 1) + column) + _message(b"D", fields)


def _message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body
