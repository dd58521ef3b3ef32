"""What runs, ran and failed, and why; it stays readable after its service is gone."""

from ramet.control.lookup import no_service
from ramet.control.plane import Plane
from ramet.ids import is_id
from ramet.model.cursor import PAGE, Page, check_limit, cursor_of, decode_cursor, page_of, time_and_id
from ramet.model.operation_record import OperationRecord
from ramet.store import history


def list_operations(
    plane: Plane,
    project_id: str,
    service_id: str | None = None,
    limit: int = PAGE,
    cursor: str | None = None,
    *,
    everything: bool = False,
) -> Page[OperationRecord]:
    """Return operations on what the caller sees of a project, or on one service even when it is gone.

    Raises NotFound, Invalid.

    Work that Ramet starts by itself (scheduled snapshots, preparations, drills) is listed when it failed, or with
    `everything`.
    """
    check_limit(limit)
    before = None if cursor is None else decode_cursor(cursor, time_and_id)
    with plane.store.read() as tx:
        made_by = plane.only_made_by
        if service_id is not None and not (
            is_id(service_id) and history.has_existed(tx, project_id, service_id, made_by=made_by)
        ):
            raise no_service(service_id)
        found = history.list_operations(
            tx, project_id, service_id, limit + 1, before, everything=everything, made_by=made_by
        )
    return page_of(found, limit, lambda one: cursor_of(one.created_at, one.id))
