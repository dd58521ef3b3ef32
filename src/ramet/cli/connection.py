"""Connection strings of services: always with TLS, but on loopback where the server's build has none."""

from ramet.api.schemas.shared import Endpoint
from ramet.endpoints import ADMIN, connection_uri, is_loopback
from ramet.machine.tls import refuses_tls


def connection_string(endpoint: Endpoint, password: str | None = None, role: str = ADMIN) -> str:
    """Return the URI for psql and drivers, with the password only when it is given."""
    return connection_uri(endpoint.host, endpoint.port, role=role, password=password, tls=speaks_tls(endpoint))


def speaks_tls(endpoint: Endpoint) -> bool:
    """Tell whether clients are to ask for TLS: everywhere but at an endpoint on loopback that says that it has none."""
    return not (is_loopback(endpoint.host) and refuses_tls(endpoint.host, endpoint.port))
