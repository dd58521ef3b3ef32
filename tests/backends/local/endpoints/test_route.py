"""One endpoint without its process: who waits is refused, whatever has become of the service's files."""

import asyncio
import struct
from pathlib import Path

from ramet.backends.local.endpoints.route import Route

_TLS_REQUEST = struct.pack("!II", 8, 80877103)
_STARTUP = struct.pack("!II", 9, 3 << 16) + b"\0"


class Connection(asyncio.Transport):
    """What was written to a client, and whether it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True


def test_a_client_is_refused_without_tls_when_the_certificate_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_text("no certificate")

    async def refused(certificate: str) -> Connection:
        route, connection = Route([], 5432, 5433, [certificate] * 2, lambda: None), Connection()
        route.hold()
        client = route.accept()
        client.connection_made(connection)
        client.data_received(_TLS_REQUEST)
        route.close()
        client.data_received(_STARTUP)
        return connection

    for name in ("absent", "damaged"):
        connection = asyncio.run(refused(str(tmp_path / name)))
        assert connection.written.startswith(b"N")
        assert b"the service was paused or deleted" in connection.written
        assert connection.is_closed
