"""Clients without a key beside a load test: connections that never send a request, and hostile request headers.

Only a server on loopback is attacked, with a fixed number of connections, until the body of `running` ends.
"""

import contextlib
import ipaddress
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

HALF_OPEN = 500
_BIG_BYTES = 64 * 1024**2
_PIECE_BYTES = 65536
_WITNESS_SECONDS = 60.0
_PAUSE_SECONDS = 0.2
_REFUSALS = frozenset({400, 408, 413, 414, 431})
_SLOW_HEAD = b"GET /console/ HTTP/1.1\r\nHost: x\r\nX-Slow: "
_HEADS: dict[str, tuple[bytes, bytes]] = {
    "big header": (b"GET / HTTP/1.1\r\nHost: x\r\nX-Big: ", b"a"),
    "many headers": (b"GET / HTTP/1.1\r\n", b"X: y\r\n"),
    "long address": (b"GET /", b"a"),
    "big trailer": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"a"),
    "garbage": (b"\x16\x03\x01\x02\x00", b"\x00\xff"),
}


@dataclass
class HostileClients:
    """What hostile clients send to a server, and what it answered."""

    base_url: str
    seed: int = 0
    half_open: int = HALF_OPEN
    answers: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> tuple[str, int]:
        """The address of the server, which must be on loopback."""
        found = urlsplit(self.base_url)
        host = found.hostname or ""
        if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
            raise ValueError(f"{host} is not this host: use a server on loopback")
        return host, found.port or 80

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Attack the server while the body runs."""
        threads = [
            threading.Thread(target=self._watched(act))
            for act in (self._hold_half_open, self._send_hostile_heads, self._witness)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join(2 * _WITNESS_SECONDS)

    def missing(self) -> list[str]:
        """Return the kinds of traffic that never occurred: a proof without them proves nothing."""
        wanted = ("half-open", "witness 200", *_HEADS)
        seen = "\n".join(self.answers)
        return [f"no traffic of the kind {one!r} occurred" for one in wanted if one not in seen]

    def _watched(self, act: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                act()
            except Exception as fault:  # noqa: BLE001 - the thread's edge: the proof tells of it
                self.faults.append(f"the attack ended with {type(fault).__name__}: {fault}")

        return run

    def _hold_half_open(self) -> None:
        """Hold connections on which a head comes byte by byte and never ends; who is closed comes again."""
        with contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(self._begun(place)) for place in range(self.half_open)]
            while not self._over.wait(1.0):
                for place, connection in enumerate(crowd):
                    if not _drips(connection, b"a" if place % 2 else b""):
                        connection.close()
                        crowd[place] = stack.enter_context(self._begun(place))
                        self.answers["half-open closed"] += 1
                self.answers["half-open rounds"] += 1

    def _send_hostile_heads(self) -> None:
        """Send one hostile head after the other."""
        chance = random.Random(self.seed)  # noqa: S311 - a seed must give the same run again
        while not self._over.is_set():
            for name in chance.sample(list(_HEADS), len(_HEADS)):
                status = self._send_head(*_HEADS[name])
                self.answers[f"{name} {status or 'closed'}"] += 1
                if status is not None and status not in _REFUSALS:
                    self.faults.append(f"a head with a {name} was answered with {status}")

    def _send_head(self, beginning: bytes, endless: bytes) -> int | None:
        """Return the status of the answer; None when the connection was closed without one that was heard."""
        piece = endless * (_PIECE_BYTES // len(endless))
        with self._connect() as connection, contextlib.suppress(OSError):
            with contextlib.suppress(OSError):
                connection.sendall(beginning)
                for _ in range(_BIG_BYTES // len(piece)):
                    connection.sendall(piece)
            head = connection.recv(_PIECE_BYTES).split(b" ", 2)
            return int(head[1]) if len(head) > 1 else None
        return None

    def _witness(self) -> None:
        """Ask over a new connection each time, as a client does that just came."""
        while not self._over.wait(_PAUSE_SECONDS):
            begun = time.monotonic()
            try:
                answer = httpx.get(f"{self.base_url}/openapi.json", timeout=_WITNESS_SECONDS, trust_env=False)
            except httpx.HTTPError as error:
                after = time.monotonic() - begun
                self.faults.append(f"a client was not served, after {after:.1f} s: {type(error).__name__}: {error}")
                continue
            self.answers[f"witness {answer.status_code}"] += 1
            if answer.status_code != 200:
                self.faults.append(f"a client was answered with {answer.status_code}")

    def _begun(self, place: int) -> socket.socket:
        """Connect and begin a head, or say nothing at all."""
        connection = self._connect()
        connection.sendall(_SLOW_HEAD if place % 2 else b"")
        return connection

    def _connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=_WITNESS_SECONDS)


def _drips(connection: socket.socket, drop: bytes) -> bool:
    """Send one more byte of a head, or none; False when the server has closed the connection."""
    try:
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            if connection.recv(_PIECE_BYTES) == b"":
                return False
        connection.send(drop)
    except OSError:
        return False
    return True
