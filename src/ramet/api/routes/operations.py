"""What runs, ran and failed, over HTTP."""

from typing import Annotated

from litestar import Response, Router, get
from litestar.params import QueryParameter
from msgspec import UNSET

from ramet.api.queries import flag, whole_number
from ramet.api.responses import PlaneDependency, ProjectId, ServiceId, answer, errors
from ramet.api.schemas.operations import Operation, Operations, OperationStep
from ramet.control import operations
from ramet.control.operations import OperationPage
from ramet.store.history import Past

Limit = Annotated[str | None, QueryParameter(name="limit", required=False, description="1 to 500; 50 by default.")]
Cursor = Annotated[
    str | None, QueryParameter(name="cursor", required=False, description="The last_cursor of the page before.")
]

All = Annotated[
    str | None,
    QueryParameter(
        name="all",
        required=False,
        description="`true`: what nobody asked for too, such as snapshots on schedule; else only when it went wrong.",
    ),
]


@get(
    "/operations",
    operation_id="getOperations",
    summary="List the operations of a project",
    responses=errors(400, 403),
    sync_to_thread=True,
)
def list_project_operations(
    plane: PlaneDependency, project_id: ProjectId, limit: Limit = None, cursor: Cursor = None, everything: All = None
) -> Response[Operations]:
    """What runs, ran and failed on all services of the project, those that are gone included, newest first."""
    wanted = whole_number("limit", limit, operations.PAGE)
    found = operations.list_operations(plane, project_id, None, wanted, cursor, everything=flag("all", everything))
    return answer(_page_shape(found))


@get(
    "/services/{service_id:str}/operations",
    operation_id="getServiceOperations",
    summary="List the operations of a service",
    responses=errors(400, 403, 404),
    sync_to_thread=True,
)
def list_service_operations(
    plane: PlaneDependency,
    project_id: ProjectId,
    service_id: ServiceId,
    limit: Limit = None,
    cursor: Cursor = None,
    everything: All = None,
) -> Response[Operations]:
    """What runs, ran and failed on a service, with the seconds of each step; also when the service is gone."""
    wanted = whole_number("limit", limit, operations.PAGE)
    is_all = flag("all", everything)
    return answer(
        _page_shape(operations.list_operations(plane, project_id, service_id, wanted, cursor, everything=is_all))
    )


def _page_shape(page: OperationPage) -> Operations:
    shapes = [_operation_shape(past) for past in page.operations]
    return Operations(shapes, UNSET if page.cursor is None else page.cursor)


def _operation_shape(past: Past) -> Operation:
    finished = past.finished_at
    return Operation(
        id=past.id,
        service_id=past.service_id,
        service_name=past.service_name,
        operation=past.procedure,
        status=past.status,
        step=past.step,
        progress=past.progress,
        error=past.error,
        created=past.created_at,
        finished=finished,
        seconds=None if finished is None else (finished - past.created_at).total_seconds(),
        steps=[OperationStep(e.step, e.outcome, e.at, e.seconds, e.error) for e in past.events],
    )


operations_router = Router(
    "/projects/{project_id:str}",
    route_handlers=[list_project_operations, list_service_operations],
    tags=["Operations"],
)
