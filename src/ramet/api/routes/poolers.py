"""Poolers of services. Responses wait until the pooler has started, since clients connect right after them."""

from litestar import Response

from ramet.api.responses import ServicePath, answer, change, router_of
from ramet.api.schemas.shared import Success
from ramet.control import poolers
from ramet.control.plane import Plane

WAIT_SECONDS = 10.0


@change("/enablePooler", operation_id="enablePooler", summary="Enable the pooler of a service")
def enable_pooler(at: ServicePath) -> Response[Success]:
    """Start PgBouncer for the service: database `tsdb` is its session pool, `tsdb_transaction` its transaction pool."""
    operation_id = poolers.enable_pooler(*at)
    poolers.await_end(at.plane.store, operation_id, WAIT_SECONDS)
    return answer(Success(enabled(at.plane, f"service {at.service_id}")))


@change("/disablePooler", operation_id="disablePooler", summary="Disable the pooler of a service")
def disable_pooler(at: ServicePath) -> Response[Success]:
    """Remove the pooler and close the connections of its clients. The endpoint of the server does not change."""
    operation_id = poolers.disable_pooler(*at)
    poolers.await_end(at.plane.store, operation_id, WAIT_SECONDS)
    return answer(Success(f"The pooler of service {at.service_id} is disabled."))


def enabled(plane: Plane, whose: str) -> str:
    """Return the message for an enabled pooler, with the limits that its clients must know."""
    return f"The pooler of {whose} is enabled. {plane.backend.poolers.check()}".strip()


poolers_router = router_of(__name__, "Services")
