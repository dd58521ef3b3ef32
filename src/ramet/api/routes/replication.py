"""Logical replication from a service over HTTP: its wal_level and its slots."""

import msgspec
from litestar import Response
from litestar.params import JSONBody

from ramet.api.responses import ServicePath, accept, answer, read_in_thread, router_of
from ramet.api.schemas.replication import Replication, SetWalLevelInput
from ramet.api.schemas.services import Service
from ramet.api.shapes import service_shape
from ramet.control import replication


@read_in_thread(
    "/replication", operation_id="getReplication", summary="Get the wal_level and the replication slots of a service"
)
def get_replication(at: ServicePath) -> Response[Replication]:
    """Whether other servers may subscribe to the service, and how much WAL each slot retains for them."""
    return answer(msgspec.convert(replication.get_replication(*at), Replication, from_attributes=True))


@accept("/setWalLevel", operation_id="setWalLevel", summary="Set the wal_level of a service")
def set_wal_level(at: ServicePath, data: JSONBody[SetWalLevelInput]) -> Response[Service]:
    """Accept another wal_level. The server restarts, and its replicas; a paused service is resumed.

    With logical, tsdbadmin may publish, and other servers may subscribe. To go back to replica, drop all slots first.
    """
    changed = replication.set_wal_level(*at, data.wal_level)
    return answer(service_shape(changed), 202)


replication_router = router_of(__name__, "Replication")
