"""Let a server that serves announce another host."""

from ramet.backends.interface.values import Server
from ramet.backends.local.host import files
from ramet.backends.local.process import postgres
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections

_LISTENS_ELSEWHERE = "SELECT FROM pg_file_settings WHERE name = 'listen_addresses' AND NOT applied"


def readdress(instances: Instances, server: Server) -> bool:
    """Issue a certificate for the server's hosts and load it; False when that needs a start, or it is not ready."""
    paths = instances.paths(server.service_id)
    if not postgres.is_ready(paths):
        return False
    instances.ensure_certificate(server)
    in_force = files.read_existing(paths.config_file)
    instances.config.write(server, Phase.OPEN)
    with connections.connect(paths) as connection:
        listens_elsewhere = connection.execute(_LISTENS_ELSEWHERE).fetchone() is not None
    if listens_elsewhere:
        files.write(paths.config_file, in_force)  # otherwise the reload that closes it would log this
        return False
    postgres.reload(paths)
    return True
