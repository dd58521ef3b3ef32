"""Upgrade running servers that an earlier release created."""

from ramet.backends.interface.values import Server
from ramet.backends.local.process import postgres
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.service_roles import ensure_pooler_role, retire_earlier_roles


def renew_access(instances: Instances, server: Server) -> None:
    """Apply this release's configuration, as far as that needs no restart, and update the platform's roles.

    May run again. Raises Unavailable when the server does not accept connections.
    """
    paths = instances.paths(server.service_id)
    instances.write_configuration(server, Phase.OPEN)
    postgres.reload(paths)
    if server.primary is None:
        with connections.connect(paths) as connection, connection.transaction():
            ensure_pooler_role(connection)
            retire_earlier_roles(connection)
