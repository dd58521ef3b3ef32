"""A client that logs in with any password, also an empty one, which libpq never sends."""

import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct


def answer_to(port: int, user: str, database: str, password: str) -> bytes:
    """Log in over TLS with SCRAM; return the server's last message: AuthenticationSASLFinal or an error."""
    with socket.create_connection(("127.0.0.1", port), timeout=250) as plain:
        plain.sendall(struct.pack("!II", 8, 80877103))
        assert plain.recv(1) == b"S"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with context.wrap_socket(plain) as connection:
            return _log_in(connection, user, database, password)


def _log_in(connection: socket.socket, user: str, database: str, password: str) -> bytes:
    fields = b"".join(part.encode() + b"\0" for part in ("user", user, "database", database)) + b"\0"
    connection.sendall(struct.pack("!II", 8 + len(fields), 196608) + fields)
    asked = _message(connection)
    if not asked.startswith(b"R"):
        return asked
    first = "n=,r=" + base64.b64encode(os.urandom(18)).decode()
    opening = f"n,,{first}".encode()
    _send(connection, b"SCRAM-SHA-256\0" + struct.pack("!I", len(opening)) + opening)
    challenge = _message(connection)
    if not challenge.startswith(b"R"):
        return challenge
    _send(connection, _proof(first, challenge[5:].decode(), password).encode())
    return _message(connection)


def _proof(first: str, challenge: str, password: str) -> str:
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    final = f"c=biws,r={fields['r']}"
    signature = hmac.digest(hashlib.sha256(key).digest(), f"{first},{challenge},{final}".encode(), "sha256")
    proof = bytes(left ^ right for left, right in zip(key, signature, strict=True))
    return f"{final},p={base64.b64encode(proof).decode()}"


def _send(connection: socket.socket, body: bytes) -> None:
    connection.sendall(b"p" + struct.pack("!I", 4 + len(body)) + body)


def _message(connection: socket.socket) -> bytes:
    kind, length = struct.unpack("!cI", _exactly(connection, 5))
    return bytes(kind) + _exactly(connection, length - 4)


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        more = connection.recv(size - len(received))
        assert more, "the pooler hung up"
        received += more
    return received
