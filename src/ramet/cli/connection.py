"""Connection strings of services: with TLS, except on loopback if the server was built without it."""

from ramet.api.schemas.shared import Endpoint
from ramet.endpoints import ADMIN, DATABASE, connection_uri, is_loopback


def connection_string(
    endpoint: Endpoint, password: str | None = None, role: str = ADMIN, database: str = DATABASE
) -> str:
    """Return the URI for psql and drivers, with the password if there is one."""
    tls = speaks_tls(endpoint)
    return connection_uri(endpoint.host, endpoint.port, role=role, password=password, tls=tls, database=database)


def speaks_tls(endpoint: Endpoint) -> bool:
    """Tell whether clients must use TLS: always, except for an endpoint on loopback that refuses it."""
    from ramet.machine.tls import refuses_tls  # few commands need it, and ssl is slow to import

    return not (is_loopback(endpoint.host) and refuses_tls(endpoint.host, endpoint.port))
