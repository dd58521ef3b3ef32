"""One endpoint of the forwarder: where it listens, where its clients are passed to, and who waits."""

import asyncio
import ssl
import time
from collections.abc import Callable

from ramet.backends.local.endpoints.sessions import Client

now = time.monotonic
_REPORTED_EVERY_SECONDS = 2.0
_START_SECONDS = 180.0
_WITHOUT_RAMET_SECONDS = 30.0
_SILENT_SECONDS = 15.0
_MOST_CLIENTS = 1000  # while it is asleep; each has a file descriptor of a process that all endpoints of the host share


class Absent:
    """When Ramet last asked whose clients wait."""

    def __init__(self) -> None:
        self._heard_at = now()

    def heard(self) -> None:
        """Note that Ramet asks."""
        self._heard_at = now()

    def seconds(self) -> float:
        """Return for how long Ramet has not asked."""
        return now() - self._heard_at


class Route:
    """An endpoint. While it `is_asleep` its clients wait; otherwise they are passed to the server at `server_port`.

    `certificate` and its key are for saying why a client that wants TLS is refused; None: there is no TLS, as where
    they cannot be read. `announce` lets Ramet know that a client waits for the server.
    """

    def __init__(
        self,
        addresses: list[str],
        port: int,
        server_port: int,
        certificate: list[str] | None,
        announce: Callable[[], None],
    ) -> None:
        self.addresses, self.port, self.server_port, self.certificate = addresses, port, server_port, certificate
        self.is_asleep = False
        self.listeners: list[asyncio.Server] = []
        self.clients: set[Client] = set()
        self.announce = announce
        self._reported_at = 0.0

    def accept(self) -> Client:
        """Return what becomes of a new client."""
        return Client(self)

    def serve(self) -> None:
        """Pass clients on, those that wait first."""
        self.is_asleep = False
        for client in self._waiting():
            client.connect()

    def hold(self) -> bool:
        """Let clients wait from now on; False, and nothing changes, while one is connected."""
        if not self.is_asleep and any(client.is_connected for client in self.clients):
            return False
        self.is_asleep, self._reported_at = True, 0.0
        return True

    def refuse(self, message: str, hint: str) -> None:
        """End the clients that wait, and say why."""
        self._reported_at = 0.0
        for client in self._waiting():
            client.refuse(message, hint)

    def close(self) -> None:
        """Listen no more. Sessions are ended by their server."""
        for listener in self.listeners:
            listener.close()
        self.refuse("the service was paused or deleted", "")

    def is_wanted(self) -> bool:
        """Tell whether Ramet is to start the server: once in two seconds at most."""
        if not self.is_asleep or now() < self._reported_at + _REPORTED_EVERY_SECONDS:
            return False
        if not any(client.wants_server for client in self._waiting()):
            return False
        self._reported_at = now()
        return True

    def refuse_overdue(self, absent: Absent) -> None:
        """Refuse the clients for which the server does not start in time, or Ramet does not run.

        One that does not say what it wants is ended before that: it starts no server, and nothing else would end it.
        """
        for client in self._waiting():
            if not client.wants_server:
                if client.waited_seconds() > _SILENT_SECONDS:
                    client.end()
            elif client.waited_seconds() > _START_SECONDS:
                client.refuse("the server of this service has not started in time", "Try again.")
            elif min(client.waited_seconds(), absent.seconds()) > _WITHOUT_RAMET_SECONDS:
                client.refuse(
                    "this service sleeps, and Ramet, which starts it, is not running",
                    "Start Ramet (ramet up) on the host of the service, and connect again.",
                )

    def make_room(self) -> None:
        """End a client where there are too many: the one that has been silent longest.

        The newest has said nothing yet, so that it ends where all others wait for the server.
        """
        if len(self.clients) > _MOST_CLIENTS:
            silent = [client for client in self._waiting() if not client.wants_server]
            max(silent, key=Client.waited_seconds).end()

    def context(self) -> ssl.SSLContext | None:
        """Return how a client that is refused is given TLS; None: it is not."""
        if self.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(*self.certificate)
        except OSError:  # ssl.SSLError is one
            return None
        return context

    def _waiting(self) -> list[Client]:
        return [client for client in self.clients if not client.is_connected]
