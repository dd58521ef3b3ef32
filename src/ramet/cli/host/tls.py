"""TLS of HTTP: its certificate, loaded again when it changes, and handshakes within the limits of connections."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ramet.cli.host.admission import Admission
from ramet.errors import Error, Invalid

HANDSHAKE_SECONDS = 10.0
_PAUSE_SECONDS = 0.5
_log = logging.getLogger(__name__)


class Files(NamedTuple):
    """The files of a certificate, with what signed it, and of its key, as PEM."""

    certificate: Path
    key: Path


class ServerCertificate:
    """The certificate of this process. `provide` returns its files, and renews them when that is due."""

    def __init__(self, provide: Callable[[], Files]) -> None:
        """Load the certificate. Raises Invalid when that is not possible."""
        self._provide = provide
        self._loaded, self.context = self._load()

    def refresh(self) -> None:
        """Load the files again if they have changed; new connections get them. What is wrong with them is logged."""
        try:
            if _stamp(self._provide()) != self._loaded:
                # Another context: handshakes in the event loop use this one at the same time.
                self._loaded, self.context = self._load()
                _log.info("HTTP uses another certificate from now on")
        except (Error, OSError) as error:
            _log.warning("HTTP keeps its certificate: %s", error)

    def _load(self) -> tuple[object, ssl.SSLContext]:
        files = self._provide()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            stamp = _stamp(files)
            context.load_cert_chain(files.certificate, files.key, password=_no_password)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise Invalid(
                "INVALID_SETTING",
                f"The certificate {files.certificate} cannot be used with the key {files.key}: {error}",
                "RAMET_TLS_CERT and RAMET_TLS_KEY name files with PEM: the certificate, with those that signed it after"
                " it, and its key without a password.",
            ) from error
        return stamp, context


class TlsListener:
    """Accepts connections, and gives those whose handshake succeeds to the protocols that `inner` makes.

    A connection whose handshake is under way counts like one that waits for its client.
    """

    def __init__(
        self,
        listening: socket.socket,
        certificate: ServerCertificate,
        admission: Admission,
        inner: Callable[[], asyncio.Protocol],
    ) -> None:
        self._listening, self._certificate, self._admission, self._inner = listening, certificate, admission, inner
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to accept, in the running event loop."""
        self._listening.setblocking(False)
        self._keep(self._accept())

    def stop(self) -> None:
        """Accept nothing more, and end the handshakes under way."""
        for task in self._tasks:
            task.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(self._listening)
            except OSError as error:  # there are too many open files, or the client is gone
                _log.warning("a connection could not be accepted: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._keep(self._shake_hands(connection, peer[0]))

    async def _shake_hands(self, connection: socket.socket, address: str) -> None:
        handshake = _Handshake(connection)
        if not self._admission.enter(handshake, address):
            connection.close()
            return
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._inner, connection, ssl=self._certificate.context, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except OSError:  # no TLS, too slow, or gone
            connection.close()
        finally:
            self._admission.leave(handshake)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop has only a weak reference to it
        task.add_done_callback(self._tasks.discard)


class _Handshake:
    """A connection until its handshake is over."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def give_way(self) -> None:
        """End the handshake, to make room for another connection."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


def _no_password() -> str:
    raise ValueError("the key has a password")


def _stamp(files: Files) -> tuple[object, ...]:
    found = [path.stat() for path in files]
    return (*files, *((each.st_ino, each.st_mtime_ns, each.st_size) for each in found))
