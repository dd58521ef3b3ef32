"""What has servers: a service, or a read replica set of one, by its id, and all that should be serving now."""

import sqlalchemy as sa

from ramet.backends.interface.values import Server
from ramet.control.plane import Plane
from ramet.control.services import get_service
from ramet.model.procedures import ProcedureName
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service
from ramet.procedures.replicas import servers_of_set
from ramet.procedures.servers import server_of
from ramet.store import replica_sets, services
from ramet.store.database import Store


def find_subject(plane: Plane, project_id: str, subject: str) -> tuple[Service, list[Server]]:
    """Return a service, or a set as a service, and its servers; those of a set in the order of its nodes.

    Raises NotFound.
    """
    found = get_service(plane, project_id, subject)
    with plane.store.read() as tx:
        return found, servers_of(tx, subject)


def servers_of(tx: sa.Connection, subject: str) -> list[Server]:
    """Return the servers of a service or a set; none when it does not exist."""
    service = services.get_service(tx, subject)
    if service is not None:
        return [server_of(service)]
    replica_set = replica_sets.get_set(tx, subject)
    parent = None if replica_set is None else services.get_service(tx, replica_set.service_id)
    return [] if replica_set is None or parent is None else servers_of_set(replica_set, parent)


def serving_services(store: Store, during: ProcedureName | None = None) -> list[Service]:
    """Return the services that should be serving; those of which `during` is under way are among them."""
    with store.read() as tx:
        known = services.live_services(tx)
    return [service for service in known if should_serve(service, during)]


def should_serve(service: Service, during: ProcedureName | None = None) -> bool:
    """Tell whether a service should be serving: created, not paused or gone, and without an operation under way.

    `during` is a procedure whose operations count as none.
    """
    is_live = service.deleted_at is None and service.failed_at is None
    is_idle = service.activity is None or service.activity.procedure == during
    return is_live and is_idle and service.ready_at is not None and not service.paused


def serving_sets(tx: sa.Connection, service_id: str | None = None) -> list[ReplicaSet]:
    """Return the read replica sets, all or those of a service, that were created and have no operation under way."""
    return [each for each in replica_sets.live_sets(tx, service_id) if each.ready_at and not each.activity]
