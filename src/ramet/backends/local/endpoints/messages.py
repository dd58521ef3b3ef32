"""The few messages of PostgreSQL's protocol by which a session begins, or is refused (PostgreSQL 18 docs, 54.7)."""

import struct
from enum import StrEnum

_LENGTH_BYTES = 4
_SSL_REQUEST, _GSS_REQUEST, _CANCEL_REQUEST = 80877103, 80877104, 80877102
_PROTOCOL_3 = 3
_LONGEST_BYTES = 10_000  # of a startup packet that PostgreSQL accepts
_TLS_HANDSHAKE = 0x16


class Opening(StrEnum):
    """What the first message of a client is."""

    INCOMPLETE = "incomplete"
    STARTUP = "startup"
    TLS_REQUEST = "request for TLS"
    TLS_HANDSHAKE = "TLS without a request"
    GSS_REQUEST = "request for GSS encryption"
    CANCEL = "request to cancel"
    OTHER = "something else"


_REQUESTS = {
    _SSL_REQUEST: Opening.TLS_REQUEST,
    _GSS_REQUEST: Opening.GSS_REQUEST,
    _CANCEL_REQUEST: Opening.CANCEL,
}


def opening_of(received: bytes) -> Opening:
    """Return what the bytes that a client has sent begin with."""
    if received[:1] and received[0] == _TLS_HANDSHAKE:
        return Opening.TLS_HANDSHAKE
    if len(received) < 2 * _LENGTH_BYTES:
        return Opening.INCOMPLETE if received[:1] in (b"", b"\0") else Opening.OTHER
    length, code = struct.unpack("!II", received[: 2 * _LENGTH_BYTES])
    if not 2 * _LENGTH_BYTES <= length <= _LONGEST_BYTES:
        return Opening.OTHER
    if code in _REQUESTS:
        return _REQUESTS[code]
    if code >> 16 != _PROTOCOL_3:
        return Opening.OTHER
    return Opening.STARTUP if len(received) >= length else Opening.INCOMPLETE


def without_request(received: bytes) -> bytes:
    """Return what follows a request for encryption."""
    return received[2 * _LENGTH_BYTES :]


def fatal_error(message: str, hint: str) -> bytes:
    """Return an ErrorResponse that ends the session: the server cannot accept connections now (57P03)."""
    fields = (("S", "FATAL"), ("V", "FATAL"), ("C", "57P03"), ("M", message), ("H", hint))
    body = b"".join(kind.encode() + text.encode() + b"\0" for kind, text in fields if text) + b"\0"
    return b"E" + struct.pack("!I", _LENGTH_BYTES + len(body)) + body
