"""Rows of read replica sets."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ramet.model.environment import Environment
from ramet.model.replica_set import Node, ReplicaSet
from ramet.model.size import Size
from ramet.model.status import FAILED_SHOWN_FOR, Activity, OperationStatus
from ramet.store.rows import columns_of
from ramet.store.tables import is_live, operation, replica_set, service

_with_activity = sa.select(
    replica_set,
    service.c.paused,
    operation.c.procedure,
    operation.c.status.label("operation_status"),
    operation.c.started,
    operation.c.error,
).select_from(
    replica_set.join(service, service.c.id == replica_set.c.service_id).outerjoin(
        operation, replica_set.c.operation_id == operation.c.id
    )
)
_visible = _with_activity.where(
    replica_set.c.deleted_at.is_(None),
    replica_set.c.failed_at.is_(None) | (replica_set.c.failed_at > sa.bindparam("shown_since")),
).order_by(replica_set.c.created_at, replica_set.c.id)
_visible_of_project = _visible.where(replica_set.c.project_id == sa.bindparam("owner_id"))
_visible_of_service = _visible.where(replica_set.c.service_id == sa.bindparam("owner_id"))
_LIVE = is_live(replica_set)
_live = _with_activity.where(_LIVE).order_by(replica_set.c.created_at)
_PORTS = sa.select(replica_set.c.port, replica_set.c.pooler_port, replica_set.c.nodes).where(_LIVE)


def insert_set(tx: sa.Connection, new: ReplicaSet) -> None:
    """Add a set."""
    columns = columns_of(new, "id project_id service_id name environment host port created_at")
    nodes = [[node.id, node.port] for node in new.nodes]
    tx.execute(replica_set.insert(), columns | columns_of(new.size, "cpu_millis memory_gbs") | {"nodes": nodes})


def get_set(tx: sa.Connection, set_id: str) -> ReplicaSet | None:
    """Return a set, deleted or not, or None. Who changes it locks first the row of its service, and operations last."""
    row = tx.execute(_with_activity.where(replica_set.c.id == set_id)).one_or_none()
    return None if row is None else _set(row)


def list_of_project(tx: sa.Connection, project_id: str, now: datetime) -> dict[str, list[ReplicaSet]]:
    """Return the sets of a project that clients may see, by service, oldest first."""
    found: dict[str, list[ReplicaSet]] = {}
    for each in _found(tx, _visible_of_project, project_id, now):
        found.setdefault(each.service_id, []).append(each)
    return found


def list_of_service(tx: sa.Connection, service_id: str, now: datetime) -> list[ReplicaSet]:
    """Return the sets of a service that clients may see, oldest first."""
    return _found(tx, _visible_of_service, service_id, now)


def live_sets(tx: sa.Connection, service_id: str | None = None, *, project_id: str | None = None) -> list[ReplicaSet]:
    """Return the sets that are neither deleted nor failed, of one service, of a project, or of all."""
    query = _live
    if service_id is not None:
        query = query.where(replica_set.c.service_id == service_id)
    if project_id is not None:
        query = query.where(replica_set.c.project_id == project_id)
    return [_set(row) for row in tx.execute(query)]


def used_ports(tx: sa.Connection) -> set[int]:
    """Return the ports of all sets that are neither deleted nor failed: of endpoints, nodes and poolers."""
    found: set[int] = set()
    for row in tx.execute(_PORTS):
        found |= {row.port, *(port for _, port in row.nodes)}
        found |= set() if row.pooler_port is None else {row.pooler_port}
    return found


def update_set(tx: sa.Connection, set_id: str, **columns: Any) -> None:
    """Set columns of a set."""
    tx.execute(replica_set.update().where(replica_set.c.id == set_id).values(**columns))


def finish_operation(tx: sa.Connection, set_id: str, operation_id: str, **columns: Any) -> None:
    """End an operation's claim on a set and set columns; does nothing when a later operation has claimed it."""
    claimed = (replica_set.c.id == set_id) & (replica_set.c.operation_id == operation_id)
    tx.execute(replica_set.update().where(claimed).values(operation_id=None, **columns))


def _found(tx: sa.Connection, query: sa.Select[Any], owner_id: str, now: datetime) -> list[ReplicaSet]:
    return [_set(row) for row in tx.execute(query, {"owner_id": owner_id, "shown_since": now - FAILED_SHOWN_FOR})]


def _set(row: sa.Row[Any]) -> ReplicaSet:
    return ReplicaSet(
        id=row.id,
        project_id=row.project_id,
        service_id=row.service_id,
        name=row.name,
        environment=Environment(row.environment),
        size=Size(row.cpu_millis, row.memory_gbs),
        nodes=tuple(Node(node_id, port) for node_id, port in row.nodes),
        host=row.host,
        port=row.port,
        created_at=row.created_at,
        pooler_port=row.pooler_port,
        ready_at=row.ready_at,
        failed_at=row.failed_at,
        failure=row.failure,
        deleted_at=row.deleted_at,
        down_reason=row.down_reason,
        paused=row.paused,
        activity=_activity(row),
    )


def _activity(row: sa.Row[Any]) -> Activity | None:
    if row.procedure is None:
        return None
    return Activity(row.operation_id, row.procedure, OperationStatus(row.operation_status), row.started, row.error)
