"""Small work on each server: its own log is kept within bounds, and marked roles stay read-only."""

from ramet.control.duties.serving import serving_services
from ramet.control.plane import Plane
from ramet.procedures.servers import server_of
from ramet.store import replicas, services


def trim_logs(plane: Plane) -> None:
    """Keep the own logs of all servers within bounds."""
    with plane.store.read() as tx:
        known = [service.id for service in services.all_live_services(tx) if service.ready_at is not None]
        known += [node.id for each in replicas.live_sets(tx) if each.ready_at is not None for node in each.nodes]
    for server_id in known:
        plane.backend.servers.trim_log(server_id)


def revoke_writes(plane: Plane) -> None:
    """Revoke write privileges from roles that tenants marked as read-only."""
    for service in serving_services(plane.store):
        if service.down_reason is None:
            plane.backend.servers.heed_readers(server_of(service))
