"""The ways to connect to a service or a read replica set, without the password."""

from collections.abc import Sequence

from ramet.endpoints import ConnectionFormat, connection_in, connection_uri, connection_variables, pooler_host
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service

Way = tuple[str, str, str]
_PROGRAMS = {
    ConnectionFormat.JDBC: "JDBC",
    ConnectionFormat.PYTHON: "Python",
    ConnectionFormat.NODE: "Node",
    ConnectionFormat.GO: "Go",
    ConnectionFormat.DOTNET: ".NET",
}


def connections(service: Service | ReplicaSet, tls: bool) -> Sequence[Way]:
    """Return (id, title, text) of each way to connect by libpq, and by the pooler."""
    uri = connection_uri(service.host, service.port, tls=tls)
    variables = connection_variables(service.host, service.port, tls=tls)
    env = " ".join(f"{name}={value}" for name, value in variables.items())
    ways = [("psql", "psql", f'psql "{uri}"'), ("uri", "URI", uri), ("env", "env", env)]
    if service.pooler_port is not None:
        host = pooler_host(service.host, service.id)
        ways.append(("pool", "pool", connection_uri(host, service.pooler_port, tls=tls)))
    return ways


def program_connections(service: Service | ReplicaSet, tls: bool) -> Sequence[Way]:
    """Return (id, title, text) of the connection strings of other drivers, or the lines of code that connect."""
    uri = connection_uri(service.host, service.port, tls=tls)
    return [(program.value, title, connection_in(program, uri)) for program, title in _PROGRAMS.items()]
