"""Connection strings of services: with TLS, except on loopback if the server was built without it."""

from ramet.api.schemas.shared import Endpoint
from ramet.endpoints import ADMIN, connection_uri, is_loopback
from ramet.machine.tls import refuses_tls


def connection_string(endpoint: Endpoint, password: str | None = None, role: str = ADMIN) -> str:
    """Return the URI for psql and drivers, with the password if there is one."""
    return connection_uri(endpoint.host, endpoint.port, role=role, password=password, tls=speaks_tls(endpoint))


def speaks_tls(endpoint: Endpoint) -> bool:
    """Tell whether clients must use TLS: always, except for an endpoint on loopback that refuses it."""
    return not (is_loopback(endpoint.host) and refuses_tls(endpoint.host, endpoint.port))
