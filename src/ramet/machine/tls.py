"""Whether an endpoint of PostgreSQL has TLS: its protocol asks before the handshake.

PostgreSQL 18 docs, Frontend/Backend Protocol, SSL Session Encryption.
"""

import socket
import ssl
import struct
from contextlib import suppress

TIMEOUT_SECONDS = 5.0
_SSL_REQUEST = struct.pack("!II", 8, 80877103)


def refuses_tls(host: str, port: int) -> bool:
    """Tell whether an endpoint answers and has no TLS. The server logs nothing about the question."""
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT_SECONDS) as plain:
            if not offers_tls(plain):
                return True
            with encrypted(plain) as connection:
                close_tls(connection)
    except OSError:
        pass
    return False


def offers_tls(plain: socket.socket) -> bool:
    """Ask for TLS on a new connection, and return whether the server agrees."""
    plain.sendall(_SSL_REQUEST)
    return receive_exactly(plain, 1) == b"S"


def encrypted(plain: socket.socket) -> ssl.SSLSocket:
    """Begin TLS on a connection whose server agreed. The certificate is not checked: no secret may be sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain)


def close_tls(connection: socket.socket) -> None:
    """End TLS in order, so that the server logs no lost connection; a plain connection is left as it is."""
    if isinstance(connection, ssl.SSLSocket):
        with suppress(OSError):
            connection.unwrap()


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """Return the next `size` bytes. Raises ConnectionError when the server closes the connection before."""
    received = b""
    while len(received) < size:
        more = connection.recv(size - len(received))
        if not more:
            raise ConnectionError("the endpoint closed the connection")
        received += more
    return received
