"""HTTP of one process: the socket, uvicorn on it, and an exit by signal that counts as success."""

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import uvicorn

from ramet.app import Runtime
from ramet.cli.host.admission import Admission
from ramet.cli.host.http_protocol import BoundedProtocol, Bounds, Protocols
from ramet.cli.host.tls import Files, ServerCertificate, TlsListener
from ramet.configured import http_certificate, most_connections
from ramet.errors import Failed
from ramet.settings import Settings

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_BACKLOG = 2048
_GRACE_SECONDS = 5
_COLLECT_AFTER = 50_000
_SWITCH_SECONDS = 0.0005
_TICKS_PER_CHECK = 10  # a tick is 0.1 s
_TICKS_PER_CERTIFICATE = 100


class Server(uvicorn.Server):
    """uvicorn with callbacks at its start and end; it does not raise the signal again that ended it."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], None],
        on_end: Callable[[], None],
        certificate: ServerCertificate | None = None,
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_end = on_end
        self._certificate = certificate
        self._tls: list[TlsListener] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and report it."""
        await super().startup(sockets if self._certificate is None else [])
        if not self.started:
            return
        if self._certificate is not None:
            self._tls = [self._listener(each, self._certificate) for each in sockets or ()]
            for listener in self._tls:
                listener.start()
        self._on_ready()

    def _listener(self, listening: socket.socket, certificate: ServerCertificate) -> TlsListener:
        protocol: Any = self.config.http_protocol_class
        of_uvicorn = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        return TlsListener(listening, certificate, protocol.admission, partial(protocol, **of_uvicorn))

    async def on_tick(self, counter: int) -> bool:
        """Close overdue connections once a second, and look for another certificate every ten seconds."""
        if self._certificate is not None and counter % _TICKS_PER_CERTIFICATE == 0:
            await asyncio.to_thread(self._certificate.refresh)
        if counter % _TICKS_PER_CHECK == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedProtocol):
                    connection.close_if_overdue(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams that never end by themselves, then wait for all requests."""
        self._on_end()
        for listener in self._tls:
            listener.stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut down in order at the first signal, and at once at a second SIGINT."""
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises Failed, with host and port, if that is not possible."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        raise Failed(
            "CANNOT_LISTEN",
            f"HTTP cannot listen on {host} port {port}: {error.strerror}",
            "Choose another --port, or 0 for a free one.",
        ) from error
    return listening


def certificate_of(settings: Settings) -> ServerCertificate | None:
    """Return the certificate of HTTP; None without TLS. Raises Invalid."""
    if not settings.tls_cert:
        return None
    return ServerCertificate(lambda: Files(*http_certificate(settings)))


def serve(
    runtime: Runtime,
    listening: socket.socket,
    on_ready: Callable[[], None],
    certificate: ServerCertificate | None = None,
) -> None:
    """Serve requests until a signal ends the process."""
    config = uvicorn.Config(
        runtime.http(),
        loop="uvloop",
        http=bounded_protocol(runtime.settings),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # uvicorn would believe every client on this host: control/recording.py reads them
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    _tune_interpreter()
    Server(config, on_ready, runtime.end_streams, certificate).run([listening])


def bounded_protocol(settings: Settings, bounds: Bounds | None = None) -> Protocols:
    """Return the protocol factory of uvicorn; all connections share the limits on their number."""
    admission = Admission(most_connections(settings), settings.http_connections_per_address)
    return Protocols(bounds or Bounds(), admission)


def _tune_interpreter() -> None:
    """Tune the interpreter for many small answers next to threads that work.

    Objects of the start are excluded from garbage collection, which also runs less often: a listing creates thousands
    of objects and no cycles. The switch interval is a tenth of the default, because each statement of a transaction
    that others wait for releases the GIL once, and then waits for it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    sys.setswitchinterval(_SWITCH_SECONDS)
