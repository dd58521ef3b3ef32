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
    return enabled(at.plane, f"service {at.service_id}", poolers.enable_pooler(*at))


@change("/disablePooler", operation_id="disablePooler", summary="Disable the pooler of a service")
def disable_pooler(at: ServicePath) -> Response[Success]:
    """Remove the pooler and close the connections of its clients. The endpoint of the server does not change."""
    return disabled(at.plane, f"service {at.service_id}", poolers.disable_pooler(*at))


def enabled(plane: Plane, whose: str, operation_id: str | None) -> Response[Success]:
    """Wait until a pooler has started, and answer so, with the limits that its clients must know."""
    has_started = poolers.await_end(plane.store, operation_id, WAIT_SECONDS)
    state = "is enabled" if has_started else "is still being started: clients that cannot connect yet must try again"
    return answer(Success(f"The pooler of {whose} {state}. {plane.backend.poolers.check()}".strip()))


def disabled(plane: Plane, whose: str, operation_id: str | None) -> Response[Success]:
    """Wait until a pooler has ended, and answer so."""
    has_ended = poolers.await_end(plane.store, operation_id, WAIT_SECONDS)
    return answer(Success(f"The pooler of {whose} {'is disabled' if has_ended else 'is still being stopped'}."))


poolers_router = router_of(__name__, "Services")
