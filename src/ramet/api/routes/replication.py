"""Logical replication from a service over HTTP: its wal_level and its slots."""

from litestar import Response, Router
from litestar.params import JSONBody

from ramet.api.parameters import ProjectId, ServiceId
from ramet.api.responses import PlaneDependency, accept, answer, read
from ramet.api.routes.services import service_shape
from ramet.api.schemas.replication import Replication, ReplicationSlot, SetWalLevelInput
from ramet.api.schemas.services import Service
from ramet.control import replication


@read("/replication", operation_id="getReplication", summary="Get the wal_level and the replication slots of a service")
def get_replication(plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId) -> Response[Replication]:
    """Whether other servers may subscribe to the service, and how much WAL each slot retains for them."""
    view = replication.get_replication(plane, project_id, service_id)
    slots = [
        ReplicationSlot(each.name, each.database, each.plugin, each.active, each.wal_status, each.retained_bytes)
        for each in view.slots
    ]
    return answer(Replication(view.wal_level, view.limit_bytes, slots))


@accept("/setWalLevel", operation_id="setWalLevel", summary="Set the wal_level of a service")
def set_wal_level(
    plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId, data: JSONBody[SetWalLevelInput]
) -> Response[Service]:
    """Accept another wal_level. The server restarts, and its replicas; a paused service is resumed.

    With logical, tsdbadmin may publish, and other servers may subscribe. To go back to replica, drop all slots first.
    """
    changed = replication.set_wal_level(plane, project_id, service_id, data.wal_level)
    return answer(service_shape(changed), 202)


replication_router = Router(
    "/projects/{project_id:str}/services/{service_id:str}",
    route_handlers=[get_replication, set_wal_level],
    tags=["Replication"],
)
