"""Whether an address asks clients for a password over TLS, as seen from inside of the cluster."""

from ramet.backends.kubernetes.cluster import Place
from ramet.backends.local.sql import connections
from ramet.errors import Unavailable


def asks_password(place: Place, service_id: str, host: str) -> bool:
    """Try to log in without a password at an address, from the pod of a service's primary. Raises Unavailable."""
    pod = place.primary_pod(service_id)
    if pod is None or not pod.runs:
        raise Unavailable("SERVER_UNREACHABLE", f"The server of service {service_id} is not running")
    where = f"host={host} port=5432 user={connections.ADMIN_ROLE} dbname={connections.DATABASE}"
    command = ["psql", "-wXAtc", "SELECT 1", f"{where} sslmode=require connect_timeout=5"]
    try:
        place.api.run(pod.metadata.name, command)
    except Unavailable as error:
        return "no password supplied" in error.details
    return False
