"""Operations: running, finished and failed ones."""

from typing import Annotated

from litestar import Response
from litestar.params import QueryParameter

from ramet.api.parameters import Cursor, Limit, ProjectId
from ramet.api.responses import OF_PROJECT, PlaneDependency, ServicePath, answer, read_in_thread, router_of
from ramet.api.schemas.operations import Actor, Operation, Operations, OperationStep
from ramet.control import operations
from ramet.model.cursor import PAGE, Page
from ramet.model.operation_record import OperationRecord

All = Annotated[
    bool,
    QueryParameter(
        name="all",
        description="`true` includes the work that Ramet starts by itself, such as scheduled snapshots; otherwise that "
        "work is listed only when it failed.",
    ),
]


@read_in_thread("/operations", operation_id="getOperations", summary="List the operations of a project")
def list_project_operations(
    plane: PlaneDependency,
    project_id: ProjectId,
    limit: Limit = PAGE,
    cursor: Cursor = None,
    everything: All = False,
) -> Response[Operations]:
    """The operations on all services of the project, newest first, including those on deleted services."""
    page = operations.list_operations(plane, project_id, None, limit, cursor, everything=everything)
    return answer(_page_shape(page))


@read_in_thread(
    "/services/{service_id:str}/operations",
    operation_id="getServiceOperations",
    summary="List the operations of a service",
)
def list_service_operations(
    at: ServicePath, limit: Limit = PAGE, cursor: Cursor = None, everything: All = False
) -> Response[Operations]:
    """The operations on a service, with the seconds of each step; also after the service was deleted."""
    page = operations.list_operations(*at, limit, cursor, everything=everything)
    return answer(_page_shape(page))


def _page_shape(page: Page[OperationRecord]) -> Operations:
    shapes = [_operation_shape(past) for past in page.items]
    return Operations(shapes, page.cursor)


def _operation_shape(past: OperationRecord) -> Operation:
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
        reason=past.reason,
        created=past.created_at,
        finished=finished,
        seconds=None if finished is None else (finished - past.created_at).total_seconds(),
        actor=None if past.actor is None else Actor(past.actor.kind, past.actor.id, past.actor.name),
        steps=[OperationStep(e.step, e.outcome, e.at, e.seconds, e.error) for e in past.events],
    )


operations_router = router_of(__name__, "Operations", OF_PROJECT)
