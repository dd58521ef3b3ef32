"""The pooler of a service over HTTP. The answers wait for it a moment, since clients connect right after them."""

from litestar import Response, Router, post

from ramet.api.parameters import ProjectId, ServiceId
from ramet.api.responses import PlaneDependency, answer
from ramet.api.schemas.shared import Success
from ramet.control import poolers
from ramet.control.plane import Plane

PATIENCE_SECONDS = 10.0


@post(
    "/enablePooler",
    operation_id="enablePooler",
    summary="Enable the pooler of a service",
    status_code=200,
    sync_to_thread=True,
)
def enable_pooler(plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId) -> Response[Success]:
    """Give the service a PgBouncer: database `tsdb` is its session pool, `tsdb_transaction` its transaction pool."""
    operation_id = poolers.enable_pooler(plane, project_id, service_id)
    poolers.await_end(plane.store, operation_id, PATIENCE_SECONDS)
    return answer(Success(enabled(plane, f"service {service_id}")))


@post(
    "/disablePooler",
    operation_id="disablePooler",
    summary="Disable the pooler of a service",
    status_code=200,
    sync_to_thread=True,
)
def disable_pooler(plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId) -> Response[Success]:
    """Take the pooler away, and end the sessions of its clients. The endpoint stays as it is."""
    operation_id = poolers.disable_pooler(plane, project_id, service_id)
    poolers.await_end(plane.store, operation_id, PATIENCE_SECONDS)
    return answer(Success(f"The pooler of service {service_id} is disabled."))


def enabled(plane: Plane, whose: str) -> str:
    """Return the sentence that answers an enabled pooler, with what its clients must heed."""
    return f"The pooler of {whose} is enabled. {plane.backend.poolers.check()}".strip()


poolers_router = Router(
    "/projects/{project_id:str}/services/{service_id:str}",
    route_handlers=[enable_pooler, disable_pooler],
    tags=["Services"],
)
