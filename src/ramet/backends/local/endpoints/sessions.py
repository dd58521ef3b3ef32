"""A client of an endpoint, and its server connection: bytes pass both ways, or wait for the server to start."""

import asyncio
import contextlib
import socket
import ssl
import time
from typing import Protocol

from ramet.backends.local.endpoints.messages import Opening, fatal_error, opening_of, without_request

_HOST = "127.0.0.1"
_MOST_BUFFERED = 64 * 1024
_RETRY_SECONDS = 0.05
_RESTART_SECONDS = 30.0
_REFUSAL_SECONDS = 10.0
_WAKES = (Opening.STARTUP, Opening.TLS_REQUEST, Opening.TLS_HANDSHAKE, Opening.GSS_REQUEST)


class Endpoint(Protocol):
    """What a client must know of its endpoint."""

    is_asleep: bool
    server_port: int
    clients: "set[Client]"

    def announce(self) -> None:
        """Let Ramet know that a client waits for the server."""

    def make_room(self) -> None:
        """End a client where there are too many of them."""

    def context(self) -> ssl.SSLContext | None:
        """Return how a client that is refused is given TLS; None: it is not."""


class Side(asyncio.Protocol):
    """One of the two connections of a session; what arrives is written to the other one."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a stream
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        """Read no more from the other side while this one does not take what there is."""
        if self.other is not None and self.other.transport is not None:
            with contextlib.suppress(RuntimeError):
                self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        if self.other is not None and self.other.transport is not None:
            with contextlib.suppress(RuntimeError):
                self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the other side, after what was written to it."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class Client(Side):
    """A client. It waits while its endpoint is asleep, and then is connected to the server."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__()
        self.is_connected = False
        self.wants_server = False
        self._endpoint = endpoint
        self._received = b""
        self._since = time.monotonic()
        self._refusal: tuple[str, str] | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        _keep_alive(transport.get_extra_info("socket"))
        self._endpoint.clients.add(self)
        if self._endpoint.is_asleep:
            self._endpoint.make_room()
        else:
            self.connect()

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            super().data_received(data)
            return
        self._received += data
        if self._refusal is not None:
            self._go_on_refusing()
        elif len(self._received) > _MOST_BUFFERED:
            self.end()
        elif not self.is_connected and not self.wants_server:
            self._judge()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._endpoint.clients.discard(self)
        if self._task is not None and self.other is None:
            self._task.cancel()

    def waited_seconds(self) -> float:
        """Return for how long it has been here."""
        return time.monotonic() - self._since

    def connect(self) -> None:
        """Connect it to the server, and pass on what it has sent."""
        self.is_connected = True
        self._task = asyncio.get_running_loop().create_task(self._connect())

    def refuse(self, message: str, hint: str) -> None:
        """End it, and say why as PostgreSQL would; one that has not said what it wants just ends."""
        self._refusal, self.is_connected = (message, hint), True
        asyncio.get_running_loop().call_later(_REFUSAL_SECONDS, self.end)
        self._go_on_refusing()

    def end(self) -> None:
        """End it without a word."""
        self._endpoint.clients.discard(self)
        if self.transport is not None:
            self.transport.close()

    def _judge(self) -> None:
        """Tell by what was received whether it wants a session: others, such as scanners, start no server."""
        opening = opening_of(self._received)
        if opening in _WAKES:
            self.wants_server = True
            self._endpoint.announce()
        elif opening is not Opening.INCOMPLETE:  # there is nothing to cancel in a server that does not run
            self.end()

    async def _connect(self) -> None:
        server, deadline = Side(), time.monotonic() + _RESTART_SECONDS
        while True:
            try:
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: server, _HOST, self._endpoint.server_port)
                break
            except OSError:
                if time.monotonic() > deadline:
                    self.refuse("the server of this service is not running", "Ramet restarts it; try again.")
                    return
                await asyncio.sleep(_RETRY_SECONDS)
        if self.transport is None or self.transport.is_closing() or server.transport is None:
            if server.transport is not None:
                server.transport.close()
            return
        self.other, server.other = server, self
        server.transport.write(self._received)
        self._received = b""

    def _go_on_refusing(self) -> None:
        if self.transport is None or self._refusal is None or self._task_of_refusal_runs():
            return
        opening = opening_of(self._received)
        if opening is Opening.STARTUP:
            self.transport.write(fatal_error(*self._refusal))
            self.end()
        elif opening in (Opening.TLS_REQUEST, Opening.GSS_REQUEST):
            self._received = without_request(self._received)
            context = self._endpoint.context() if opening is Opening.TLS_REQUEST else None
            if context is None:
                self.transport.write(b"N")
                self._go_on_refusing()
            else:
                self.transport.write(b"S")
                self._task = asyncio.get_running_loop().create_task(self._encrypt(context))
        elif opening is not Opening.INCOMPLETE:
            self.end()

    def _task_of_refusal_runs(self) -> bool:
        return self._task is not None and not self._task.done() and self._task is not asyncio.current_task()

    async def _encrypt(self, context: ssl.SSLContext) -> None:
        transport = self.transport
        if transport is None:
            return
        try:
            encrypted = await asyncio.get_running_loop().start_tls(transport, self, context, server_side=True)
        except (OSError, ValueError):  # the client does not go on
            self.end()
            return
        self.transport = encrypted
        self._go_on_refusing()


def _keep_alive(connection: socket.socket | None) -> None:
    """Find out that a client's host is gone, as the poolers do."""
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6)):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
