"""What services and read replica sets use up of the quotas of their projects."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ramet.store.tables import is_live, last_usage, replica_set, service


@dataclass(frozen=True)
class Holding:
    """A service, or a read replica set with all its nodes. Shared ones have no CPU and no memory of their own.

    `made_by` is the public key whose request made the service.
    """

    name: str
    is_fork: bool
    is_replica_set: bool
    cpu_millis: int
    memory_gbs: int
    storage_mb: int
    made_by: str | None


def list_holdings(tx: sa.Connection, project_id: str, made_by: str | None = None) -> list[Holding]:
    """Return what a project has that is neither deleted nor failed; with `made_by`, of the services of this key."""
    live = is_live(service) & (service.c.project_id == project_id)
    live &= service.c.unclaimed.is_(False)
    if made_by is not None:
        live &= service.c.made_by == made_by
    size = (service.c.cpu_millis, service.c.memory_gbs)
    measured = service.outerjoin(last_usage, last_usage.c.subject == service.c.id)
    columns = (service.c.name, service.c.parent_service_id, *size, last_usage.c.storage_mb, service.c.made_by)
    rows = tx.execute(sa.select(*columns).select_from(measured).where(live)).all()
    own = [
        Holding(name, parent is not None, False, cpu or 0, memory or 0, disk or 0, maker)
        for name, parent, cpu, memory, disk, maker in rows
    ]
    return own + [_of_set(row) for row in tx.execute(_sets(live))]


def _sets(live: sa.ColumnElement[bool]) -> sa.Select[Any]:
    of_live = replica_set.join(service, service.c.id == replica_set.c.service_id)
    columns = (replica_set.c.name, replica_set.c.nodes, replica_set.c.cpu_millis, replica_set.c.memory_gbs)
    return sa.select(*columns, service.c.made_by).select_from(of_live).where(live, is_live(replica_set))


def _of_set(row: sa.Row[Any]) -> Holding:
    nodes = len(row.nodes)
    cpu, memory = nodes * (row.cpu_millis or 0), nodes * (row.memory_gbs or 0)
    return Holding(row.name, False, True, cpu, memory, 0, row.made_by)
