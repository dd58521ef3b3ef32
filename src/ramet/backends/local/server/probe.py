"""Ask an endpoint what a client would be told, without credentials: just so far that it asks for a password."""

import socket
import ssl
import struct
from contextlib import closing, suppress
from enum import StrEnum

from ramet.backends.local.host.own_faults import is_own, unseen

_SSL_REQUEST = struct.pack("!II", 8, 80877103)
_PROTOCOL_3 = 196608
_PASSWORD_REQUESTS = (5, 10)  # MD5 and SASL
_TIMEOUT_SECONDS = 5.0


class Answer(StrEnum):
    """What the endpoint said."""

    ASKS_PASSWORD = "asks for a password"  # noqa: S105
    REFUSES = "refuses"
    SILENT = "does not answer"


def ask(host: str, port: int, user: str, database: str, *, tls: bool) -> Answer:
    """Begin a session like a client's, and leave before it is one. Raises Unseen when this side cannot ask."""
    try:
        with socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls and not _offers_tls(plain):
                return Answer.REFUSES
            return _ask(_encrypted(plain) if tls else plain, user, database)
    except OSError as error:
        if is_own(error):
            raise unseen(f"the endpoint on port {port}", error.strerror or error) from error
        return Answer.SILENT


def refuses_tls(host: str, port: int) -> bool:
    """Tell whether an endpoint that answers has no TLS; its log does not tell of the question."""
    try:
        with socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS) as plain:
            if not _offers_tls(plain):
                return True
            with _encrypted(plain) as encrypted:
                _close_tls(encrypted)
    except OSError:
        pass
    return False


def _offers_tls(plain: socket.socket) -> bool:
    plain.sendall(_SSL_REQUEST)
    return _exactly(plain, 1) == b"S"


def _encrypted(plain: socket.socket) -> socket.socket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # only the answer is looked at, and no secret is sent
    return context.wrap_socket(plain)


def _ask(connection: socket.socket, user: str, database: str) -> Answer:
    with closing(connection):
        fields = b"".join(part.encode() + b"\0" for part in ("user", user, "database", database)) + b"\0"
        connection.sendall(struct.pack("!II", 8 + len(fields), _PROTOCOL_3) + fields)
        kind, length = struct.unpack("!cI", _exactly(connection, 5))
        body = _exactly(connection, length - 4)
        _close_tls(connection)
    if kind == b"R" and struct.unpack("!I", body[:4])[0] in _PASSWORD_REQUESTS:
        return Answer.ASKS_PASSWORD
    return Answer.REFUSES


def _close_tls(connection: socket.socket) -> None:
    """End TLS in order, so that the server logs no lost connection."""
    if isinstance(connection, ssl.SSLSocket):
        with suppress(OSError):
            connection.unwrap()


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        more = connection.recv(size - len(received))
        if not more:
            raise ConnectionError("the endpoint hung up")
        received += more
    return received
