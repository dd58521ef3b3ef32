"""Connection strings of services: always with TLS, but on loopback where the server's build has none."""

import ipaddress
import socket
import struct
from urllib.parse import quote

from ramet.api.wire import Endpoint
from ramet.cli.passwords import ADMIN, DATABASE

_SSL_REQUEST = struct.pack("!II", 8, 80877103)
_TIMEOUT_SECONDS = 2.0


def connection_string(endpoint: Endpoint, password: str | None = None, role: str = ADMIN) -> str:
    """Return the URI for psql and drivers, with the password only when it is given."""
    secret = "" if password is None else f":{quote(password, safe='')}"
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"postgresql://{quote(role, safe='')}{secret}@{host}:{endpoint.port}/{DATABASE}?sslmode={ssl_mode(endpoint)}"


def ssl_mode(endpoint: Endpoint) -> str:
    """Return 'require', or 'disable' for an endpoint on loopback that says that it has no TLS."""
    return "disable" if is_loopback(endpoint.host) and _refuses_tls(endpoint) else "require"


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach what listens on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refuses_tls(endpoint: Endpoint) -> bool:
    try:
        with socket.create_connection((endpoint.host, endpoint.port), timeout=_TIMEOUT_SECONDS) as connection:
            connection.sendall(_SSL_REQUEST)
            return connection.recv(1) == b"N"
    except OSError:
        return False
