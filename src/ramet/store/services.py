"""Rows of services, and of the holds that forks put on them."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ramet.model.credentials import Secret
from ramet.model.resources import Size
from ramet.model.service import (
    FAILED_SHOWN_FOR,
    Activity,
    Environment,
    OperationStatus,
    Origin,
    Service,
    ServiceType,
)
from ramet.store import replicas
from ramet.store.database import locking
from ramet.store.tables import hold, operation, service

_PORTS_LOCK = 7206356  # any number, the same in every process

_with_activity = sa.select(
    service,
    operation.c.procedure,
    operation.c.status.label("operation_status"),
    operation.c.started,
    operation.c.error,
).select_from(service.outerjoin(operation, service.c.operation_id == operation.c.id))
_COLUMNS = tuple(_with_activity.selected_columns.keys())


def insert_service(tx: sa.Connection, new: Service) -> None:
    """Add a service."""
    origin = new.origin
    tx.execute(
        service.insert().values(
            id=new.id,
            project_id=new.project_id,
            name=new.name,
            region_code=new.region_code,
            service_type=new.service_type.value,
            environment=new.environment.value,
            cpu_millis=new.size.cpu_millis,
            memory_gbs=new.size.memory_gbs,
            volume_type=new.volume_type,
            host=new.host,
            port=new.port,
            pooler_port=new.pooler_port,
            pg_major=new.pg_major,
            created_at=new.created_at,
            verifier=new.verifier.reveal(),
            paused=new.paused,
            settings=new.settings,
            **({} if origin is None else _origin_columns(origin)),
        )
    )


def get_service(tx: sa.Connection, service_id: str, *, lock: bool = False) -> Service | None:
    """Return a service, deleted or not, or None. `lock` keeps others from changing it until the transaction ends."""
    if lock:
        tx.execute(locking(sa.select(service.c.id).where(service.c.id == service_id)))
    row = tx.execute(_with_activity.where(service.c.id == service_id)).one_or_none()
    return None if row is None else _service(row)


def list_services(tx: sa.Connection, project_id: str, now: datetime) -> list[Service]:
    """Return the services of a project that clients may see, oldest first."""
    visible = (
        (service.c.project_id == project_id)
        & service.c.deleted_at.is_(None)
        & (service.c.failed_at.is_(None) | (service.c.failed_at > now - FAILED_SHOWN_FOR))
    )
    query = _with_activity.where(visible).order_by(service.c.created_at, service.c.id)
    return [_service(row) for row in tx.execute(query).all()]


def all_live_services(tx: sa.Connection) -> list[Service]:
    """Return the services of all projects that are neither deleted nor failed."""
    live = service.c.deleted_at.is_(None) & service.c.failed_at.is_(None)
    return [_service(row) for row in tx.execute(_with_activity.where(live).order_by(service.c.created_at))]


def update_service(tx: sa.Connection, service_id: str, **columns: Any) -> None:
    """Set columns of a service."""
    tx.execute(service.update().where(service.c.id == service_id).values(**columns))


def finish_operation(tx: sa.Connection, service_id: str, operation_id: str, **columns: Any) -> None:
    """End an operation's claim on a service and set columns; does nothing when a later operation has claimed it."""
    claimed = (service.c.id == service_id) & (service.c.operation_id == operation_id)
    tx.execute(service.update().where(claimed).values(operation_id=None, **columns))


def used_ports(tx: sa.Connection) -> set[int]:
    """Return the ports of all services and replica sets that are neither deleted nor failed, and of their poolers.

    Nobody else gets an answer before the transaction ends, so that what is free stays free until it is reserved.
    """
    if tx.dialect.name == "postgresql":
        tx.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _PORTS_LOCK})
    live = service.c.deleted_at.is_(None) & service.c.failed_at.is_(None)
    rows = tx.execute(sa.select(service.c.port, service.c.pooler_port).where(live))
    return {port for row in rows for port in row if port is not None} | replicas.used_ports(tx)


def add_hold(tx: sa.Connection, service_id: str, operation_id: str) -> None:
    """Keep a service from being stopped, started, trimmed or deleted while an operation copies from it."""
    tx.execute(hold.insert().values(service_id=service_id, operation_id=operation_id))


def drop_holds(tx: sa.Connection, operation_id: str) -> None:
    """Release every service that an operation holds."""
    tx.execute(hold.delete().where(hold.c.operation_id == operation_id))


def holders(tx: sa.Connection, service_id: str) -> list[str]:
    """Return the operations that hold a service."""
    return list(tx.scalars(sa.select(hold.c.operation_id).where(hold.c.service_id == service_id)))


def _origin_columns(origin: Origin) -> dict[str, Any]:
    return {
        "parent_project_id": origin.project_id,
        "parent_service_id": origin.service_id,
        "parent_name": origin.name,
        "fork_strategy": origin.strategy,
        "fork_target_time": origin.target_time,
        "origin_snapshot_id": origin.snapshot_id,
        "data_time": origin.data_time,
    }


def _service(row: sa.Row[Any]) -> Service:
    columns = dict(zip(_COLUMNS, row, strict=True))  # a row's own attributes take half the time of a listing
    return Service(
        id=columns["id"],
        project_id=columns["project_id"],
        name=columns["name"],
        region_code=columns["region_code"],
        service_type=ServiceType(columns["service_type"]),
        environment=Environment(columns["environment"]),
        size=Size(columns["cpu_millis"], columns["memory_gbs"]),
        volume_type=columns["volume_type"],
        host=columns["host"],
        port=columns["port"],
        pooler_port=columns["pooler_port"],
        pg_major=columns["pg_major"],
        created_at=columns["created_at"],
        verifier=Secret(columns["verifier"]),
        paused=columns["paused"],
        born_at=columns["born_at"],
        failed_at=columns["failed_at"],
        failure=columns["failure"],
        deleted_at=columns["deleted_at"],
        down_reason=columns["down_reason"],
        proven_at=columns["proven_at"],
        drilled_at=columns["drilled_at"],
        drill_failure=columns["drill_failure"],
        archive_delay=columns["archive_delay"],
        origin=_origin(columns),
        settings=columns["settings"],
        report=columns["report"],
        activity=_activity(columns),
    )


def _origin(columns: dict[str, Any]) -> Origin | None:
    if columns["parent_service_id"] is None:
        return None
    return Origin(
        columns["parent_project_id"],
        columns["parent_service_id"],
        columns["parent_name"],
        columns["fork_strategy"],
        columns["fork_target_time"],
        columns["origin_snapshot_id"],
        columns["data_time"],
    )


def _activity(columns: dict[str, Any]) -> Activity | None:
    if columns["procedure"] is None:
        return None
    return Activity(
        columns["operation_id"],
        columns["procedure"],
        OperationStatus(columns["operation_status"]),
        columns["started"],
        columns["error"],
    )
