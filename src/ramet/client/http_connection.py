"""One connection of HTTP/1.1: it sends a request and reads the response, whose bytes httptools parses.

The client of the standard library imports TLS and mail, which takes longer than a request does.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from httptools import HttpParserError, HttpResponseParser
from msgspec import Struct

if TYPE_CHECKING:
    from ssl import SSLContext

_READ_BYTES = 65536


class Answer(Struct, frozen=True):
    """A response; the names of its headers are lower-case."""

    status: int
    content: bytes
    headers: Mapping[str, str] = {}

    @property
    def text(self) -> str:
        """The content as text."""
        return self.content.decode(errors="replace")


class Limits(Struct, frozen=True):
    """How long a response may take, and how large it may be, whatever the server sends; None: as it likes."""

    seconds: float | None = None
    size_bytes: int | None = None


UNLIMITED = Limits()


class BadAnswer(ConnectionError):
    """The server sent no complete response of HTTP."""


class HttpConnection:
    """A connection that is open until `close`. For one thread at a time."""

    def __init__(
        self, host: str, port: int, timeout_seconds: float, tls: SSLContext | None, limits: Limits = UNLIMITED
    ) -> None:
        """Connect. `timeout_seconds` is for each wait. Raises OSError."""
        self.keeps_open = True
        self._limits = limits
        # Python imports what encodes IDNA for each name of the type str.
        name = host.encode() if host.isascii() else host
        self.sock = socket.create_connection((name, port), timeout_seconds)  # type: ignore[arg-type]
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self.sock = tls.wrap_socket(self.sock, server_hostname=host)
        except BaseException:
            self.sock.close()
            raise

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Send a request, and return its response. Raises TimeoutError and OSError.

        `keeps_open` tells afterwards whether the server takes another request.
        """
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if body is not None or method != "GET":
            lines.append(f"Content-Length: {len(body or b'')}")
        self.sock.sendall("\r\n".join((*lines, "", "")).encode("ascii") + (body or b""))
        response, begun, size_bytes = _Response(), time.monotonic(), 0
        while response.answer is None:
            received = self.sock.recv(_READ_BYTES)
            size_bytes += len(received)
            self._check(time.monotonic() - begun, size_bytes)
            response.feed(received)
        self.keeps_open = response.keeps_open
        return response.answer

    def _check(self, seconds: float, size_bytes: int) -> None:
        """Raise TimeoutError for a response that takes too long, and BadAnswer for one that is too large."""
        limits = self._limits
        if limits.seconds is not None and seconds > limits.seconds:
            raise TimeoutError(f"The response took longer than {limits.seconds:g} seconds")
        if limits.size_bytes is not None and size_bytes > limits.size_bytes:
            raise BadAnswer(f"The response has more than {limits.size_bytes} bytes")

    def close(self) -> None:
        """Close the connection."""
        self.sock.close()


class _Response:
    """What was received of a response; httptools calls the methods whose names begin with `on`."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.keeps_open = False
        self._parser = HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._content = bytearray()
        self._has_headers = False

    def feed(self, received: bytes) -> None:
        """Take what was received; b"" is the end of the connection. Raises BadAnswer."""
        if not received:
            self._end()
            return
        try:
            self._parser.feed_data(received)
        except HttpParserError as error:
            if self.answer is None:
                raise BadAnswer(f"The server sent no response of HTTP: {error}") from error
            self.keeps_open = False  # what follows the response is none

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Take the end of the headers."""
        self._has_headers = True

    def on_body(self, body: bytes) -> None:
        """Take a part of the content."""
        self._content += body

    def on_message_complete(self) -> None:
        """Take the end of a response; one of 100 to 199 precedes the response itself (RFC 9110, 15.2)."""
        if self.answer is None and self._parser.get_status_code() >= 200:
            self.keeps_open = self._parser.should_keep_alive()
            self._finish()
        self._headers, self._has_headers = {}, False

    def _end(self) -> None:
        """Without a length the content ends with the connection (RFC 9112, 6.3)."""
        if not self._has_headers or self._headers.keys() & {"content-length", "transfer-encoding"}:
            raise BadAnswer("The server closed the connection before its response was complete")
        self._finish()

    def _finish(self) -> None:
        self.answer = Answer(self._parser.get_status_code(), bytes(self._content), self._headers)
