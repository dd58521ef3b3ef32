"""Connection strings of services: always with TLS, but on loopback where the server's build has none."""

import ipaddress
from urllib.parse import quote

from ramet.api.wire import Endpoint
from ramet.backends.local.probe import refuses_tls
from ramet.cli.passwords import ADMIN, DATABASE


def connection_string(endpoint: Endpoint, password: str | None = None, role: str = ADMIN) -> str:
    """Return the URI for psql and drivers, with the password only when it is given."""
    secret = "" if password is None else f":{quote(password, safe='')}"
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"postgresql://{quote(role, safe='')}{secret}@{host}:{endpoint.port}/{DATABASE}?sslmode={ssl_mode(endpoint)}"


def ssl_mode(endpoint: Endpoint) -> str:
    """Return 'require', or 'disable' for an endpoint on loopback that says that it has no TLS."""
    return "disable" if is_loopback(endpoint.host) and refuses_tls(endpoint.host, endpoint.port) else "require"


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach what listens on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
