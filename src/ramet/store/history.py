"""Queries on the operations of a project's services, deleted ones included."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ramet.model.operation_record import Event, OperationRecord
from ramet.model.procedures import SPECS
from ramet.model.snapshot import SnapshotKind
from ramet.model.status import OperationStatus
from ramet.store.tables import hold, operation, operation_event, replica_set, service

Position = tuple[datetime, str]


_BACKGROUND = [spec.name.value for spec in SPECS.values() if spec.background]
_CREATES = [spec.name.value for spec in SPECS.values() if spec.creates]
# Ramet submits these itself; one is listed with the rest as soon as it has an error.
_is_manual = operation.c.state["kind"].as_string() == SnapshotKind.MANUAL.value
_is_routine = operation.c.procedure.in_(_BACKGROUND) & sa.func.coalesce(sa.not_(_is_manual), sa.true())
_is_listed = sa.not_(_is_routine) | operation.c.error.is_not(None)


def list_past(
    tx: sa.Connection,
    project_id: str,
    service_id: str | None,
    limit: int,
    before: Position | None,
    *,
    everything: bool,
) -> list[OperationRecord]:
    """Return up to `limit` operations of a project, of a service or of a set, newest first, with all their events.

    `before` is where the last page ended: the time and the id of its last operation. Unless `everything` is wanted,
    background operations without an error are left out, except manual snapshots.
    """
    own_service, own_project = (
        sa.func.coalesce(service.c[here], replica_set.c[there])
        for here, there in (("id", "service_id"), ("project_id", "project_id"))
    )
    wanted = own_project == project_id
    if not everything:
        wanted &= _is_listed
    if service_id is not None:
        sets = sa.select(replica_set.c.id).where(replica_set.c.service_id == service_id)
        wanted &= (operation.c.subject == service_id) | operation.c.subject.in_(sets)
    place = sa.tuple_(operation.c.created_at, operation.c.id)
    if before is not None:
        wanted &= place < sa.tuple_(sa.literal(before[0], operation.c.created_at.type), sa.literal(before[1]))
    query = (
        sa.select(
            operation,
            own_service.label("service_id"),
            sa.func.coalesce(service.c.name, replica_set.c.name).label("name"),
        )
        .select_from(
            operation.outerjoin(service, service.c.id == operation.c.subject).outerjoin(
                replica_set, replica_set.c.id == operation.c.subject
            )
        )
        .where(wanted)
        .order_by(operation.c.created_at.desc(), operation.c.id.desc())
        .limit(limit)
    )
    rows = tx.execute(query).all()
    events = _events_of(tx, [row.id for row in rows])
    return [_past(row, events.get(row.id, ())) for row in rows]


def was_ever(tx: sa.Connection, project_id: str, service_id: str) -> bool:
    """Tell whether the project has or had such a service, or such a read replica set."""
    return any(
        tx.scalar(sa.select(table.c.id).where(table.c.id == service_id, table.c.project_id == project_id)) is not None
        for table in (service, replica_set)
    )


def forget(tx: sa.Connection, before: datetime, limit: int) -> int:
    """Remove up to `limit` operations that ended before a time, with their events; return how many.

    The one that created a service stays as long as the service: its fork report has the seconds of each step.
    """
    lives = sa.select(service.c.id).where(service.c.deleted_at.is_(None), service.c.failed_at.is_(None))
    made_it = operation.c.procedure.in_(_CREATES) & operation.c.subject.in_(lives)
    old = sa.select(operation.c.id).where(operation.c.finished_at < before, sa.not_(made_it))
    unheld = old.where(operation.c.id.not_in(sa.select(hold.c.operation_id)))
    ids = tx.scalars(unheld.order_by(operation.c.finished_at).limit(limit)).all()
    tx.execute(operation_event.delete().where(operation_event.c.operation_id.in_(ids)))
    tx.execute(operation.delete().where(operation.c.id.in_(ids)))
    return len(ids)


def _events_of(tx: sa.Connection, operation_ids: Sequence[str]) -> dict[str, tuple[Event, ...]]:
    found: dict[str, tuple[Event, ...]] = {}
    query = operation_event.select().where(operation_event.c.operation_id.in_(operation_ids))
    for row in tx.execute(query.order_by(operation_event.c.id)):
        event = Event(row.operation_id, row.step, row.outcome, row.at, row.seconds, row.error)
        found[row.operation_id] = (*found.get(row.operation_id, ()), event)
    return found


def _past(row: sa.Row[Any], events: tuple[Event, ...]) -> OperationRecord:
    return OperationRecord(
        id=row.id,
        service_id=row.service_id,
        service_name=row.name,
        procedure=row.procedure,
        status=OperationStatus(row.status),
        step=row.step,
        progress=row.progress,
        error=row.error,
        created_at=row.created_at,
        finished_at=row.finished_at,
        events=events,
    )
