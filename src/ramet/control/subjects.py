"""What an id stands for where clients ask about servers: a service, or a read replica set of one."""

import sqlalchemy as sa

from ramet.backends.base import Server
from ramet.control.control import Control
from ramet.model.service import Service
from ramet.procedures.followers import servers_of_set
from ramet.procedures.servers import server_of
from ramet.store import replicas, services


def find_subject(control: Control, project_id: str, subject: str) -> tuple[Service, list[Server]]:
    """Return a service, or a set as one, and its servers, a set's in the order of its nodes. Raises NotFound."""
    found = control.get_service(project_id, subject)
    with control.store.read() as tx:
        return found, servers_of(tx, subject)


def servers_of(tx: sa.Connection, subject: str) -> list[Server]:
    """Return the servers of a service or a set; none when there is no such thing."""
    service = services.get_service(tx, subject)
    if service is not None:
        return [server_of(service)]
    replica_set = replicas.get_set(tx, subject)
    parent = None if replica_set is None else services.get_service(tx, replica_set.service_id)
    return [] if replica_set is None or parent is None else servers_of_set(replica_set, parent)
