"""Connections to servers in pods, over their local sockets: one socket here for each service.

Nothing of a server has to be open for that but the socket in its pod, which only the pod's own user can use. A program
in the pod passes the bytes on; Debian's base system has Perl, and so have the images of CloudNativePG.

The SQL that both kinds of servers need (`backends/local/sql`) finds here what it reads of a server on this host: its
socket, and the files that name its version and port.
"""

import logging
import selectors
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx2
from httpx2.websockets import HTTPXWSException, WebSocketSession
from wsproto.connection import ConnectionState
from wsproto.utilities import LocalProtocolError

from ramet.backends.kubernetes.api import Api
from ramet.backends.local.host.paths import ServicePaths

_log = logging.getLogger(__name__)
SOCKET = "/controller/run/.s.PGSQL.5432"
# Each direction has a process: one for both would wait to write to a server that waits for it to read.
RELAY = r"""
use Socket;
my $server;
socket($server, PF_UNIX, SOCK_STREAM, 0) && connect($server, sockaddr_un($ARGV[0])) or die "$ARGV[0]: $!\n";
my $child = fork() // die "fork: $!\n";
my ($from, $to) = $child ? ($server, *STDOUT) : (*STDIN, $server);
COPY: while (my $read = sysread($from, my $bytes, 65536)) {
    for (my $at = 0; $at < $read;) { $at += syswrite($to, $bytes, $read - $at, $at) // last COPY }
}
kill 'TERM', $child || getppid;
"""
_PORT = 5432
_CHUNK_BYTES = 64 * 1024
_INPUT, _OUTPUT, _ERRORS, _END = b"\0", 1, 2, 3
_CLOSE_INPUT = b"\xff\0"
_LOOK_SECONDS = 1.0
# A session that has closed itself, because it could not write, never ends a call that waits for a message.
_CLOSED_HERE = (ConnectionState.LOCAL_CLOSING, ConnectionState.CLOSED)


class Tunnels:
    """The sockets of this process, in a directory that only its user can enter. `pod_of` names a service's primary."""

    def __init__(self, api: Api, pod_of: Callable[[str], str], server_socket: str = SOCKET) -> None:
        self._api = api
        self._pod_of = pod_of
        self._server_socket = server_socket
        self._lock = threading.Lock()
        self._root: Path | None = None
        self._listeners: dict[str, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._acceptor: threading.Thread | None = None
        self._closed = False

    def paths(self, service_id: str, pg_major: int) -> ServicePaths:
        """Return where the server of a service can be reached from this process.

        Its files are written again if they are missing: what is old is removed from /tmp.
        """
        root = self.root()
        with self._lock:
            directory = root / service_id
            data = directory / "data"
            data.mkdir(parents=True, exist_ok=True)
            if service_id not in self._listeners:
                self._listen(directory, service_id)
            for name, text in (("PG_VERSION", f"{pg_major}\n"), ("postmaster.pid", f"\n\n\n{_PORT}\n")):
                if not (data / name).exists() or (data / name).read_text() != text:
                    (data / name).write_text(text)
        return ServicePaths(directory, directory)

    def root(self) -> Path:
        """Return the directory of all sockets; the first call makes it."""
        with self._lock:
            if self._root is None:
                self._root = Path(tempfile.mkdtemp(prefix="ramet-"))
            if self._acceptor is None:
                acceptor = threading.Thread(target=self._accept, name="tunnels", daemon=True)
                acceptor.start()
                self._acceptor = acceptor  # only now: where no thread can be started, the next call tries again
            return self._root

    def forget(self, service_id: str) -> None:
        """Close the socket of a service that is gone."""
        with self._lock:
            listener = self._listeners.pop(service_id, None)
            if listener is not None and self._root is not None:
                self._selector.unregister(listener)
                listener.close()
                shutil.rmtree(self._root / service_id, ignore_errors=True)

    def close(self) -> None:
        """Close all sockets, and remove their directory."""
        self._closed = True
        for service_id in list(self._listeners):
            self.forget(service_id)
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)

    def _listen(self, directory: Path, service_id: str) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(directory / f".s.PGSQL.{_PORT}"))
        listener.listen(16)
        listener.setblocking(False)
        self._listeners[service_id] = listener
        self._selector.register(listener, selectors.EVENT_READ, service_id)

    def _accept(self) -> None:
        while not self._closed:
            for key, _ in self._selector.select(1.0):
                with suppress(KeyError, OSError):  # its service was forgotten, or the client has gone
                    accepted, _ = self._listeners[key.data].accept()
                    accepted.setblocking(True)
                    self._begin(accepted, key.data)

    def _begin(self, accepted: socket.socket, service_id: str) -> None:
        try:
            threading.Thread(
                target=self._serve, args=(accepted, service_id), name=f"tunnel-{service_id}", daemon=True
            ).start()
        except RuntimeError as error:  # no thread can be started now
            accepted.close()
            _log.debug("no connection to the server of service %s: %s", service_id, error)

    def _serve(self, accepted: socket.socket, service_id: str) -> None:
        command = ["perl", "-e", RELAY, self._server_socket]
        with accepted:
            try:
                with self._api.channel(self._pod_of(service_id), command) as channel:
                    threading.Thread(target=_send, args=(accepted, channel), name="tunnel-input", daemon=True).start()
                    _receive(accepted, channel, service_id)
            except (httpx2.HTTPError, HTTPXWSException, OSError, RuntimeError, ValueError) as error:
                _log.debug("no connection to the server of service %s: %s", service_id, error)
            finally:
                with suppress(OSError):
                    accepted.shutdown(socket.SHUT_RDWR)


def _send(accepted: socket.socket, channel: WebSocketSession) -> None:
    with suppress(httpx2.HTTPError, HTTPXWSException, LocalProtocolError, OSError, ValueError):
        while data := accepted.recv(_CHUNK_BYTES):
            channel.send_bytes(_INPUT + data)
        channel.send_bytes(_CLOSE_INPUT)


def _receive(accepted: socket.socket, channel: WebSocketSession, service_id: str) -> None:
    while True:
        try:
            message = channel.receive_bytes(timeout=_LOOK_SECONDS)
        except TimeoutError:
            if channel.connection.state in _CLOSED_HERE:
                return
            continue
        if message[:1] == b"" or message[0] == _END:
            return
        if message[0] == _OUTPUT:
            accepted.sendall(message[1:])
        elif message[0] == _ERRORS:
            _log.debug("tunnel to service %s: %s", service_id, message[1:].decode(errors="replace").strip())
