"""Connect to a server as a client does, without credentials, up to the point where it asks for a password."""

import socket
import struct
from collections.abc import Callable
from contextlib import closing
from enum import StrEnum
from pathlib import Path

from ramet.backends.local.host.own_faults import is_own, unseen
from ramet.machine.tls import TIMEOUT_SECONDS, close_tls, encrypted, offers_tls, receive_exactly

_PROTOCOL_3 = 196608
_PASSWORD_REQUESTS = (5, 10)  # MD5 and SASL
_CANNOT_CONNECT_NOW = b"\0C57P03\0"
_FIRST_BYTES = 4096  # more than an error needs until its code


class Answer(StrEnum):
    """What the endpoint said."""

    ASKS_PASSWORD = "asks for a password"  # noqa: S105
    REFUSES = "refuses"
    SILENT = "does not answer"


class Presence(StrEnum):
    """Whether there is a server of PostgreSQL."""

    RUNS = "runs"
    CHANGES = "starts or shuts down"
    SILENT = "does not answer"


def ask(host: str, port: int, user: str, database: str, *, tls: bool) -> Answer:
    """Begin a session like a client's, and leave before it is one. Raises Unseen when this side cannot ask."""

    def session() -> Answer:
        with socket.create_connection((host, port), timeout=TIMEOUT_SECONDS) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls and not offers_tls(plain):
                return Answer.REFUSES
            return _ask(encrypted(plain) if tls else plain, user, database)

    return _found(session, f"the endpoint on port {port}")


def ask_on_socket(file: Path, user: str, database: str) -> Answer:
    """Ask as `ask` does on a Unix socket, where there is no TLS: that takes a third of the time."""

    def session() -> Answer:
        with socket.socket(socket.AF_UNIX) as plain:
            plain.settimeout(TIMEOUT_SECONDS)
            plain.connect(str(file))
            return _ask(plain, user, database)

    return _found(session, f"the socket {file}")


def _found(session: Callable[[], Answer], endpoint: str) -> Answer:
    try:
        return session()
    except OSError as error:
        if is_own(error):
            raise unseen(endpoint, error.strerror or error) from error
        return Answer.SILENT


def presence(host: str, port: int, user: str, database: str) -> Presence:
    """Tell whether a server runs at an address: it answers anything but that it cannot be connected to now.

    What it answers is not trusted, and its certificate is not checked. Raises Unseen when this side cannot ask.
    """
    has_answered = False
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT_SECONDS) as plain:
            has_tls, has_answered = offers_tls(plain), True
            with closing(encrypted(plain) if has_tls else plain) as connection:
                _begin(connection, user, database)
                said = connection.recv(_FIRST_BYTES)
                close_tls(connection)
    except OSError as error:
        if has_answered:
            return Presence.CHANGES
        if is_own(error) and not isinstance(error, socket.gaierror):  # a name may go with its server
            raise unseen(f"the server {host}:{port}", error.strerror or error) from error
        return Presence.SILENT
    return Presence.CHANGES if not said or _CANNOT_CONNECT_NOW in said else Presence.RUNS


def _begin(connection: socket.socket, user: str, database: str) -> None:
    fields = b"".join(part.encode() + b"\0" for part in ("user", user, "database", database)) + b"\0"
    connection.sendall(struct.pack("!II", 8 + len(fields), _PROTOCOL_3) + fields)


def _ask(connection: socket.socket, user: str, database: str) -> Answer:
    with closing(connection):
        _begin(connection, user, database)
        kind, length = struct.unpack("!cI", receive_exactly(connection, 5))
        body = receive_exactly(connection, length - 4)
        close_tls(connection)
    if kind == b"R" and struct.unpack("!I", body[:4])[0] in _PASSWORD_REQUESTS:
        return Answer.ASKS_PASSWORD
    return Answer.REFUSES
