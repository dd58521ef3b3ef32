"""Requests over HTTP/1.1 on connections that stay open, by the standard library.

A fork takes little longer than the import of a larger HTTP library, and these requests need nothing of it.
"""

import select
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from ramet.errors import Invalid

# `ramet up` closes a connection that was idle for 5 seconds; a request that meets that moment would be lost.
_LONGEST_IDLE_SECONDS = 2.0


@dataclass(frozen=True)
class Answer:
    """A response; the names of its headers are lower-case."""

    status: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The content as text."""
        return self.content.decode(errors="replace")


class Transport(Protocol):
    """Sends requests to one server. May be shared between threads."""

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request. Raises TimeoutError, and OSError or HTTPException when no server answers."""

    def close(self) -> None:
        """Close the connections."""


class HttpTransport:
    """Each request takes a connection for itself, and leaves it open for the next one."""

    def __init__(self, base_url: str, timeout_seconds: float, ca: str = "") -> None:
        """`ca` is the authority to verify the server with, as PEM; by default those that browsers know."""
        self._address = urlsplit(checked_address(base_url))
        self._timeout_seconds = timeout_seconds
        self._tls = verification(ca) if self._address.scheme == "https" else None
        self._idle: list[tuple[HTTPConnection, float]] = []

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request. Raises TimeoutError, and OSError or HTTPException when no server answers."""
        connection = self._connection()
        try:
            connection.request(method, self._address.path + path, body, dict(headers))
            response = connection.getresponse()
            content = response.read()
        except (OSError, HTTPException):
            connection.close()
            raise
        self._idle.append((connection, time.monotonic()))
        return Answer(response.status, content, {name.lower(): value for name, value in response.getheaders()})

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop()[0].close()

    def _connection(self) -> HTTPConnection:
        while self._idle:
            connection, since = self._idle.pop()
            is_young = time.monotonic() - since < _LONGEST_IDLE_SECONDS
            if is_young and connection.sock is not None and not _was_closed(connection):
                return connection
            connection.close()
        host, port = self._address.hostname or "", self._address.port
        if self._tls is None:
            return HTTPConnection(host, port, timeout=self._timeout_seconds)
        return HTTPSConnection(host, port, timeout=self._timeout_seconds, context=self._tls)


def _was_closed(connection: HTTPConnection) -> bool:
    """Tell whether the server has ended an idle connection: there is something to read, although nothing was asked."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def verification(ca: str) -> ssl.SSLContext:
    """Return what servers are verified with: an authority as PEM or, where that is "", those that browsers know."""
    try:
        return ssl.create_default_context(cadata=ca or None)
    except (ssl.SSLError, ValueError) as error:
        raise Invalid("BAD_CA", "The authority is no certificate in PEM", "'ramet ca' prints it.") from error


def checked_address(base_url: str) -> str:
    """Return a base URL without its final slash. Raises Invalid when it is not one."""
    if not _is_address(base_url):
        raise Invalid(
            "BAD_BASE_URL",
            f"{base_url[:200]!r} is not the URL of a Ramet server",
            "It looks like http://127.0.0.1:8080/public/api/v1.",
        )
    return base_url.rstrip("/")


def _is_address(url: str) -> bool:
    try:
        found: SplitResult = urlsplit(url)
        port_fits = found.port is None or found.port > 0
    except ValueError:
        return False
    is_plain = url.isprintable() and " " not in url and found.path.isascii()
    return is_plain and port_fits and found.scheme in ("http", "https") and bool(found.hostname)
