"""Logical replication from a service over HTTP: its wal_level and its slots."""

from litestar import Response, Router
from litestar.params import JSONBody

from ramet.api.responses import ServicePath, accept, answer, read
from ramet.api.routes.services import service_shape
from ramet.api.schemas.replication import Replication, ReplicationSlot, SetWalLevelInput
from ramet.api.schemas.services import Service
from ramet.control import replication


@read("/replication", operation_id="getReplication", summary="Get the wal_level and the replication slots of a service")
def get_replication(at: ServicePath) -> Response[Replication]:
    """Whether other servers may subscribe to the service, and how much WAL each slot retains for them."""
    view = replication.get_replication(*at)
    slots = [
        ReplicationSlot(each.name, each.database, each.plugin, each.active, each.wal_status, each.retained_bytes)
        for each in view.slots
    ]
    return answer(Replication(view.wal_level, view.limit_bytes, slots))


@accept("/setWalLevel", operation_id="setWalLevel", summary="Set the wal_level of a service")
def set_wal_level(at: ServicePath, data: JSONBody[SetWalLevelInput]) -> Response[Service]:
    """Accept another wal_level. The server restarts, and its replicas; a paused service is resumed.

    With logical, tsdbadmin may publish, and other servers may subscribe. To go back to replica, drop all slots first.
    """
    changed = replication.set_wal_level(*at, data.wal_level)
    return answer(service_shape(changed), 202)


replication_router = Router(
    "/projects/{project_id:str}/services/{service_id:str}",
    route_handlers=[get_replication, set_wal_level],
    tags=["Replication"],
)
