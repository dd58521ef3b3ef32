"""Requests over HTTP/1.1 on connections that stay open.

A fork takes little longer than the import of a larger HTTP library, and these requests need nothing of it.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import SplitResult, urlsplit

from ramet.client.http_connection import UNLIMITED, Answer, HttpConnection, Limits
from ramet.errors import Invalid

if TYPE_CHECKING:
    from ssl import SSLContext

# `ramet up` closes a connection that was idle for 5 seconds; a request that meets that moment would be lost.
_LONGEST_IDLE_SECONDS = 2.0
_PORTS = {"http": 80, "https": 443}


class Transport(Protocol):
    """Sends requests to one server. May be shared between threads."""

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request. Raises TimeoutError, and OSError when no server answers."""

    def close(self) -> None:
        """Close the connections."""


class HttpTransport:
    """Each request takes a connection for itself, and leaves it open for the next one."""

    def __init__(self, base_url: str, timeout_seconds: float, ca: str = "", limits: Limits = UNLIMITED) -> None:
        """`ca` is the authority to verify the server with, as PEM; by default those that browsers know."""
        self._limits = limits
        self._address = urlsplit(checked_address(base_url))
        self._timeout_seconds = timeout_seconds
        self._tls = verification(ca) if self._address.scheme == "https" else None
        host = self._address.netloc.rpartition("@")[2]
        self._host = {"Host": host if host.isascii() else host.encode("idna").decode(), "Accept-Encoding": "identity"}
        self._idle: list[tuple[HttpConnection, float]] = []

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request. Raises TimeoutError, and OSError when no server answers."""
        connection = self._connection()
        try:
            answer = connection.request(method, self._address.path + path, {**self._host, **headers}, body)
        except BaseException:
            connection.close()
            raise
        if connection.keeps_open:
            self._idle.append((connection, time.monotonic()))
        else:
            connection.close()
        return answer

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop()[0].close()

    def _connection(self) -> HttpConnection:
        while self._idle:
            connection, since = self._idle.pop()
            if time.monotonic() - since < _LONGEST_IDLE_SECONDS and not _was_closed(connection):
                return connection
            connection.close()
        host, port = self._address.hostname or "", self._address.port or _PORTS[self._address.scheme]
        return HttpConnection(host, port, self._timeout_seconds, self._tls, self._limits)


def _was_closed(connection: HttpConnection) -> bool:
    """Tell whether the server has ended an idle connection: there is something to read, although nothing was asked."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def verification(ca: str) -> SSLContext:
    """Return what servers are verified with: an authority as PEM or, where that is "", those that browsers know."""
    import ssl  # most commands speak to this host, without TLS

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
