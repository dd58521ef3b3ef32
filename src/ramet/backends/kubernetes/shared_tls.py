"""TLS connections that several threads use, as those of WebSockets are: one reads, another writes or closes.

OpenSSL takes one call on a connection at a time, and Python's `ssl` lets threads make theirs together (CPython issue
143756). The worst case is a thread that closes while another one reads: the reader still uses the number of the
descriptor, and takes bytes of whatever is opened next under that number. Other connections then fail with
WRONG_VERSION_NUMBER. Here each call has the connection for itself and does not block; a thread that must wait for the
peer waits between calls.
"""

import select
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

_LOOK_SECONDS = 1.0
_Result = TypeVar("_Result")


class SharedSocket(ssl.SSLSocket):
    """The socket of a connection that several threads use. Give it to a context as `sslsocket_class`."""

    _turn: threading.Lock
    _writing: threading.Lock

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls, *args, **kwargs)
        made._turn = threading.Lock()
        made._writing = threading.Lock()
        return made

    def settimeout(self, value: float | None) -> None:
        with self._turn:
            super().settimeout(value)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Return what has come, as soon as there is something; nothing at the end of the connection."""
        return self._take_turns(lambda: super(SharedSocket, self).recv(buflen, flags))

    def send(self, data: Any, flags: int = 0) -> int:
        """Send a part of the data, and return its length. A part that waits is sent before any other."""
        with self._writing:
            return self._take_turns(lambda: super(SharedSocket, self).send(data, flags))

    def close(self) -> None:
        """Close the connection when no call is being made on it."""
        with self._turn:
            super().close()

    def _take_turns(self, call: Callable[[], _Result]) -> _Result:
        with self._turn:  # during a call it is 0
            timeout = self.gettimeout()
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._turn:
                kept = self.gettimeout()
                super().settimeout(0)
                try:
                    return call()
                except ssl.SSLWantReadError:
                    awaited = select.POLLIN
                except ssl.SSLWantWriteError:
                    awaited = select.POLLOUT
                finally:
                    if self.fileno() >= 0:
                        super().settimeout(kept)
            self._wait(awaited, until)

    def _wait(self, awaited: int, until: float | None) -> None:
        """Wait for the peer in short intervals: closing the socket in another thread does not end a poll."""
        left = _LOOK_SECONDS if until is None else until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        if (descriptor := self.fileno()) < 0:
            raise OSError("the connection was closed")
        poll = select.poll()
        poll.register(descriptor, awaited)
        poll.poll(min(left, _LOOK_SECONDS) * 1000)
