"""Queries on the operations of a project's services, deleted ones included."""

from datetime import datetime

import msgspec
import sqlalchemy as sa

from ramet.model.operation_record import OperationRecord
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.snapshot import SnapshotKind
from ramet.model.status import OperationStatus
from ramet.store.operations import events_of
from ramet.store.rows import values_of
from ramet.store.tables import hold, is_live, operation, operation_event, replica_set, service

Position = tuple[datetime, str]

# Each of them ends the pause of a paused service.
RESUMING = frozenset(
    {ProcedureName.START, ProcedureName.RESIZE, ProcedureName.SET_WAL_LEVEL, ProcedureName.SET_SLEEP}
    | {ProcedureName.RESTORE}
)

_BACKGROUND = [spec.name.value for spec in SPECS.values() if spec.background]
# Ramet may submit these once a minute for each service.
_FREQUENT = [name.value for name in (ProcedureName.SNAPSHOT, ProcedureName.EXPIRE, ProcedureName.PREPARE)]
_KEPT = [spec.name.value for spec in SPECS.values() if spec.creates or spec.name is ProcedureName.UPGRADE]
# Ramet submits these itself; one is listed with the rest as soon as it has an error.
_is_manual = operation.c.state["kind"].as_string() == SnapshotKind.MANUAL.value
_is_routine = operation.c.procedure.in_(_BACKGROUND) & sa.func.coalesce(sa.not_(_is_manual), sa.true())
_is_listed = sa.not_(_is_routine) | operation.c.error.is_not(None)


def list_operations(
    tx: sa.Connection,
    project_id: str,
    service_id: str | None,
    limit: int,
    before: Position | None,
    *,
    everything: bool,
    made_by: str | None = None,
) -> list[OperationRecord]:
    """Return up to `limit` operations of a project, of a service or of a set, newest first, with all their events.

    `before` is where the last page ended: the time and the id of its last operation. Unless `everything` is wanted,
    background operations without an error are left out, except manual snapshots. With `made_by` only those on services
    that this key made.
    """
    own_service, own_project = (
        sa.func.coalesce(service.c[here], replica_set.c[there])
        for here, there in (("id", "service_id"), ("project_id", "project_id"))
    )
    wanted = (own_project == project_id) & service.c.unclaimed.is_not(True)
    if not everything:
        wanted &= _is_listed
    if service_id is not None:
        wanted &= operation.c.subject.in_(_subjects_of(tx, service_id))
    if made_by is not None:
        made = service.alias()
        wanted &= sa.exists().where(made.c.id == own_service, made.c.made_by == made_by)
    place = sa.tuple_(operation.c.created_at, operation.c.id)
    if before is not None:
        wanted &= place < sa.tuple_(sa.literal(before[0], operation.c.created_at.type), sa.literal(before[1]))
    query = (
        sa.select(
            operation,
            operation.c.state["reason"].as_string().label("reason"),
            own_service.label("service_id"),
            sa.func.coalesce(service.c.name, replica_set.c.name).label("service_name"),
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
    events = events_of(tx, [row.id for row in rows])
    return [msgspec.convert(values_of(row) | {"events": events.get(row.id, ())}, OperationRecord) for row in rows]


def _subjects_of(tx: sa.Connection, service_id: str) -> list[str]:
    """Return the ids of a service and its read replica sets: PostgreSQL uses no index for an OR with a subquery."""
    return [service_id, *tx.scalars(sa.select(replica_set.c.id).where(replica_set.c.service_id == service_id))]


def has_existed(tx: sa.Connection, project_id: str, service_id: str, *, made_by: str | None = None) -> bool:
    """Tell whether the project has or had such a service, or such a read replica set; with `made_by`, of this key."""
    of_set = sa.select(replica_set.c.service_id).where(replica_set.c.id == service_id)
    wanted = service.c.id.in_(sa.select(sa.literal(service_id)).union_all(of_set)) & (
        service.c.project_id == project_id
    )
    wanted &= service.c.unclaimed.is_(False)
    if made_by is not None:
        wanted &= service.c.made_by == made_by
    return tx.execute(sa.select(service.c.id).where(wanted).limit(1)).first() is not None


def project_of(tx: sa.Connection, subject: str) -> str | None:
    """Return the project of a service, or of a read replica set, that exists or has existed."""
    own = [sa.select(table.c.project_id).where(table.c.id == subject) for table in (service, replica_set)]
    return tx.scalar(sa.union_all(*own))


def remove_operations(tx: sa.Connection, before: datetime, limit: int) -> int:
    """Remove up to `limit` operations that ended before a time, with their events; return how many.

    The one that created a service stays as long as the service: its fork report has the seconds of each step. So do its
    upgrades, before which its WAL was that of another cluster. One that paused it stays until the one that has
    resumed it is as old: time in between is not missed by restore drills.
    """
    lives = sa.select(service.c.id).where(is_live(service))
    made_it = operation.c.procedure.in_(_KEPT) & operation.c.subject.in_(lives)
    resumed = operation.alias()
    ended = (resumed.c.subject == operation.c.subject) & resumed.c.procedure.in_(RESUMING)
    ended &= (resumed.c.status == OperationStatus.SUCCEEDED.value) & (resumed.c.finished_at < before)
    ended &= resumed.c.finished_at >= operation.c.finished_at
    pauses = (operation.c.procedure == ProcedureName.STOP) & operation.c.subject.in_(lives)
    pauses &= (operation.c.status == OperationStatus.SUCCEEDED.value) & sa.not_(sa.exists().where(ended))
    return _remove(tx, sa.not_(made_it | pauses), before, limit)


def remove_frequent_operations(tx: sa.Connection, before: datetime, limit: int) -> int:
    """Remove up to `limit` snapshots on schedule, and what follows them, that succeeded before a time.

    The last one of each procedure on a service stays: the next one reads what it has done, and how long it took.
    """
    later = operation.alias()
    follows = (later.c.subject == operation.c.subject) & (later.c.procedure == operation.c.procedure)
    follows &= (later.c.created_at > operation.c.created_at) & (later.c.status == operation.c.status)
    succeeded = (operation.c.status == OperationStatus.SUCCEEDED.value) & sa.not_(_is_listed)
    frequent = operation.c.procedure.in_(_FREQUENT) & succeeded & sa.exists().where(follows)
    return _remove(tx, frequent, before, limit)


def _remove(tx: sa.Connection, condition: sa.ColumnElement[bool], before: datetime, limit: int) -> int:
    """Remove the oldest operations that meet a condition and hold no service, with their events; return how many."""
    old = sa.select(operation.c.id).where(operation.c.finished_at < before, condition)
    unheld = old.where(operation.c.id.not_in(sa.select(hold.c.operation_id)))
    ids = tx.scalars(unheld.order_by(operation.c.finished_at).limit(limit)).all()
    tx.execute(operation_event.delete().where(operation_event.c.operation_id.in_(ids)))
    tx.execute(operation.delete().where(operation.c.id.in_(ids)))
    return len(ids)
