"""What runs, ran and failed, and why; it stays readable after its service is gone."""

import base64
from dataclasses import dataclass
from datetime import UTC, datetime

from ramet.control.plane import Plane
from ramet.errors import Invalid, NotFound
from ramet.model.operation_record import OperationRecord
from ramet.store import history
from ramet.store.history import Position

PAGE = 50
LARGEST_PAGE = 500


@dataclass(frozen=True)
class OperationPage:
    """Operations, newest first. `cursor` asks for the next page; None on the last one."""

    operations: list[OperationRecord]
    cursor: str | None


def list_operations(
    plane: Plane,
    project_id: str,
    service_id: str | None = None,
    limit: int = PAGE,
    cursor: str | None = None,
    *,
    everything: bool = False,
) -> OperationPage:
    """Return operations of a project, or of one service even when it is gone. Raises NotFound, Invalid.

    What nobody asked for (snapshots on schedule, preparations, drills) is among them when it goes wrong, or when
    `everything` is wanted.
    """
    if not 1 <= limit <= LARGEST_PAGE:
        raise Invalid("INVALID_LIMIT", f"limit must be from 1 to {LARGEST_PAGE}, not {limit}")
    before = None if cursor is None else _position(cursor)
    with plane.store.read() as tx:
        if service_id is not None and not history.was_ever(tx, project_id, service_id):
            raise NotFound("SERVICE_NOT_FOUND", "no service with that id exists", f"service_id {service_id[:64]!r}")
        found = history.list_past(tx, project_id, service_id, limit + 1, before, everything=everything)
    page = found[:limit]
    return OperationPage(page, _cursor(page[-1]) if len(found) > limit else None)


def _cursor(last: OperationRecord) -> str:
    return base64.urlsafe_b64encode(f"{last.created_at.isoformat()} {last.id}".encode()).decode().rstrip("=")


def _position(cursor: str) -> Position:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        moment, operation_id = text.split(" ")
        return datetime.fromisoformat(moment).astimezone(UTC), operation_id
    except (ValueError, OverflowError) as error:
        message = f"cursor cannot be {cursor[:64]!r}: no earlier answer gave it"
        raise Invalid("INVALID_CURSOR", message, "Leave it out.") from error
