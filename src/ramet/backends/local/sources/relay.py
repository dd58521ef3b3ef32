"""A private UNIX socket whose connections go on to a source over TCP, with TLS where that is wanted.

PostgreSQL's tools may have been built without TLS, and their connections have no time-outs of their own. The relay
counts the bytes that arrive, and it ends with this process: then the tools end too.
"""

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.local.host.own_faults import is_own
from ramet.backends.local.host.system_user import Account

PORT = 5432  # a part of the socket's name only
_CONNECT_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
_CHUNK = 256 * 1024
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)  # PostgreSQL 18 docs, 54.7
_SASL = 10
_PLUS = b"SCRAM-SHA-256-PLUS\0"
_MOST_OF_A_MESSAGE = 2000  # libpq refuses an authentication message that announces more (fe-connect.c)
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6))
_UNACKNOWLEDGED_MS = 120_000
_MOST_OF_A_SESSION = 64 * 1024**2


@dataclass
class Relay:
    """A relay that listens in `directory`. `received` counts the bytes from the source, of all its connections.

    `problem` says by which limit it has cut them, and cuts those that come later, too. After
    `has_ended` no more are accepted.
    """

    source: SourceAddress
    directory: Path
    received: int = 0
    opened: set[socket.socket] = field(default_factory=set)
    most_bytes: int | None = None
    problem: str | None = None
    has_ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, size: int) -> None:
        """Add to the bytes received; cut the connections when they are too many."""
        with self._lock:
            self.received += size
        if self.most_bytes is not None and self.received > self.most_bytes:
            self.cut(f"it answered with more than {self.most_bytes >> 20} MiB")

    def cut(self, problem: str | None = None) -> None:
        """Cut the open connections."""
        self.problem = problem or self.problem  # first: the error of a session may come before this thread continues
        for one in list(self.opened):
            _cut(one)


@contextlib.contextmanager
def open_relay(source: SourceAddress, directory: Path, account: Account | None = None) -> Iterator[Relay]:
    """Listen in a directory, for clients of `account`, until the end of the block; it cuts open connections then."""
    relay = Relay(source, directory)
    path = directory / f".s.PGSQL.{PORT}"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        if account is not None:
            account.own(path)
        listener.listen(64)
        acceptor = threading.Thread(target=_accept, args=(relay, listener), name="relay", daemon=True)
        acceptor.start()
        try:
            yield relay
        finally:
            relay.has_ended = True
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            relay.cut()
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def open_short_relay(source: SourceAddress, directory: Path, seconds: float) -> Iterator[Relay]:
    """Listen as `open_relay` does, for a session that ends within a time and reads no tables."""
    with open_relay(source, directory) as relay:
        relay.most_bytes = _MOST_OF_A_SESSION
        limit = threading.Timer(seconds, relay.cut, (f"it did not answer within {seconds:g} seconds",))
        limit.daemon = True
        limit.start()
        try:
            yield relay
        finally:
            limit.cancel()


def _accept(relay: Relay, listener: socket.socket) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError as error:
            # Linux looks for a free file first, and only then whether the listener is shut down.
            if relay.has_ended or not is_own(error):
                return
            time.sleep(_PAUSE_SECONDS)  # no file is free now: the client waits until one is
            continue
        relay.opened.add(client)
        if relay.problem is not None:
            _cut(client)  # the others were cut before
        try:
            threading.Thread(target=_serve, args=(relay, client), name="relay", daemon=True).start()
        except RuntimeError:  # no thread can be started now
            relay.opened.discard(client)
            client.close()


def _serve(relay: Relay, client: socket.socket) -> None:
    with contextlib.suppress(OSError), client:
        try:
            server = _connect(relay.source)
        except OSError as error:
            client.recv(_CHUNK)  # libpq sends its first message before it reads
            client.sendall(_error(f"the source {relay.source} cannot be reached: {_reason(error)}"))
        else:
            relay.opened.add(server)
            with server:
                _pump(relay, client, server)
            relay.opened.discard(server)
    relay.opened.discard(client)


def _connect(source: SourceAddress) -> socket.socket:
    """Connect to the source, and begin TLS unless it is not wanted. Raises OSError."""
    plain = socket.create_connection((source.host, source.port), _CONNECT_SECONDS)
    try:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
        for option, value in _KEEPALIVE:
            plain.setsockopt(socket.IPPROTO_TCP, option, value)
        found = plain if source.sslmode == "disable" else _begin_tls(source, plain)
        found.settimeout(None)
    except BaseException:
        plain.close()
        raise
    return found


def _begin_tls(source: SourceAddress, plain: socket.socket) -> socket.socket:
    plain.sendall(_SSL_REQUEST)
    if plain.recv(1) != b"S":
        raise OSError("it does not support TLS, which sslmode=require (the default) asks for")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = source.sslmode == "verify-full"
    if source.root_certificate is None:
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=source.root_certificate)
    return context.wrap_socket(plain, server_hostname=source.host)


def _pump(relay: Relay, client: socket.socket, server: socket.socket) -> None:
    """Pass bytes on in both directions until one side ends, in one thread: OpenSSL's connections belong to one."""
    reply, poll = _Authentication(), select.poll()
    for one in (client, server):
        poll.register(one, select.POLLIN)
    with contextlib.suppress(OSError):
        while True:
            ready = [server.fileno()] if _has_more(server) else [number for number, _ in poll.poll()]
            if client.fileno() in ready:
                chunk = client.recv(_CHUNK)
                server.sendall(chunk)
                if not chunk:
                    break
            if server.fileno() in ready:
                received = _received(server)
                if received is None:
                    continue
                relay.count(len(received))
                client.sendall(reply.passed(received))
                if not received:
                    break
    _cut(client)
    _cut(server)


def _received(server: socket.socket) -> bytes | None:
    """Return bytes for the client, or None: what arrived can be TLS's own, like the session tickets of TLS 1.3.

    To wait for more then would stop both sides, while the server waits for what the client has to say.
    """
    server.settimeout(0)
    try:
        return server.recv(_CHUNK)
    except (ssl.SSLWantReadError, BlockingIOError):
        return None
    finally:
        server.settimeout(None)


def _has_more(server: socket.socket) -> bool:
    return isinstance(server, ssl.SSLSocket) and server.pending() > 0


def _cut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@dataclass
class _Authentication:
    """Removes channel binding from the server's offer: the client does not know of the TLS (libpq refuses it then)."""

    waiting: bytes = b""
    is_over: bool = False

    def passed(self, chunk: bytes) -> bytes:
        """Return what goes to the client now; the rest of a message that has not arrived yet is kept back."""
        if self.is_over:
            return chunk
        found, self.waiting = self.waiting + chunk, b""
        if len(found) < 5:
            self.waiting = found
            return b""
        length = int.from_bytes(found[1:5])
        if found[:1] != b"R" or length > _MOST_OF_A_MESSAGE:
            self.is_over = True
            return found
        size = 1 + length
        if len(found) < size:
            self.waiting = found
            return b""
        self.is_over = True
        return _without_binding(found[:size]) + found[size:]


def _without_binding(message: bytes) -> bytes:
    if int.from_bytes(message[5:9]) != _SASL or _PLUS not in message:
        return message
    body = message[5:].replace(_PLUS, b"", 1)
    return b"R" + struct.pack("!i", len(body) + 4) + body


def _error(text: str) -> bytes:
    """Return an ErrorResponse (PostgreSQL 18 docs, 54.8) that the client shows as the server's own."""
    fields = b"".join(key + value.encode() + b"\0" for key, value in ((b"S", "FATAL"), (b"C", "08006"), (b"M", text)))
    body = fields + b"\0"
    return b"E" + struct.pack("!i", len(body) + 4) + body


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate could not be verified: {error.verify_message}"
    return error.strerror or str(error)
