"""Sends one delivery: to an address that was checked, without redirects, within a time limit and a size."""

import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpcore
import httpx

from ramet.events.targets import Network, Unreachable, resolve

_RESPONSE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Response:
    """What came of an attempt: the status of the target's response, or why there is none."""

    status: int | None
    error: str | None

    @property
    def is_success(self) -> bool:
        """Whether the target has accepted the delivery."""
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True)
class Sender:
    """Sends deliveries. `private` are the private networks that may be reached."""

    private: Sequence[Network] = ()
    seconds: float = 15.0

    def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Post a body to a URL, and return what came of it; it raises nothing that a target could cause."""
        target = httpx.URL(url)
        deadline = time.monotonic() + self.seconds
        backend = _CheckedBackend(self.private, deadline, encrypted=target.scheme == "https")
        sent = [("host", target.netloc.decode("ascii")), *headers.items(), ("content-type", "application/json")]
        limits = dict.fromkeys(("connect", "read", "write", "pool"), self.seconds)
        try:
            with (
                httpcore.ConnectionPool(ssl_context=_tls(), network_backend=backend, max_connections=1) as pool,
                pool.stream(
                    "POST", str(target), headers=sent, content=body, extensions={"timeout": limits}
                ) as response,
            ):
                _read_some(response.iter_stream())
                status: int = response.status
        except Unreachable as error:
            return Response(None, str(error))
        except (httpcore.TimeoutException, TimeoutError):
            return Response(None, f"The target did not answer within {self.seconds:g} s.")
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError, OSError, ValueError) as error:
            return Response(None, f"The request failed: {str(error)[:200] or type(error).__name__}.")
        if 300 <= status < 400:
            return Response(status, f"The target answered {status}; redirects are not followed.")
        return Response(status, None if 200 <= status < 300 else f"The target answered {status}.")


def _read_some(parts: Iterable[bytes]) -> None:
    """Read a response as far as it matters, so that the target sees that it was received."""
    size = 0
    for part in parts:
        size += len(part)
        if size > _RESPONSE_BYTES:
            return


class _CheckedBackend(httpcore.NetworkBackend):
    """Connects to an address that was checked, and ends everything at a deadline."""

    def __init__(self, private: Sequence[Network], deadline: float, *, encrypted: bool) -> None:
        self._inner = httpcore.SyncBackend()
        self._private = private
        self._deadline = deadline
        self._encrypted = encrypted

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        """Connect to the address that a name has now; the name is not resolved again."""
        address = resolve(host, port, self._private, encrypted=self._encrypted)
        stream = self._inner.connect_tcp(address, port, _left(self._deadline), local_address, socket_options)
        return _BoundedStream(stream, self._deadline)


class _BoundedStream(httpcore.NetworkStream):
    """A stream whose time is limited as a whole: a target that sends a byte now and then does not prolong it."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: float) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what has arrived."""
        return self._inner.read(max_bytes, _left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all of a buffer."""
        self._inner.write(buffer, _left(self._deadline))

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Begin TLS; the certificate must be that of the name in the URL."""
        return _BoundedStream(
            self._inner.start_tls(ssl_context, server_hostname, _left(self._deadline)), self._deadline
        )

    def get_extra_info(self, info: str) -> Any:
        """Return what the stream knows of itself."""
        return self._inner.get_extra_info(info)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
