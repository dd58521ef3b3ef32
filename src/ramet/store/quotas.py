"""What services and read replica sets use up of the quotas of their projects."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ramet.store.resizes import Resizing, resizes_under_way
from ramet.store.tables import is_live, last_usage, replica_set, service


@dataclass(frozen=True)
class Holding:
    """A service, or a read replica set with all its nodes. Shared ones have no CPU and no memory of their own.

    One that is being resized has the larger one of both sizes. `made_by` is the public key whose request made the
    service.
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
    measured = service.outerjoin(last_usage, last_usage.c.subject == service.c.id)
    columns = (service.c.id, service.c.name, service.c.parent_service_id, service.c.cpu_millis, service.c.memory_gbs)
    query: sa.Select[Any] = sa.select(*columns, last_usage.c.storage_mb, service.c.made_by).select_from(measured)
    resizes = resizes_under_way(tx)
    own = [_of_service(row, resizes.get(row.id)) for row in tx.execute(query.where(live))]
    return own + [_of_set(row) for row in tx.execute(_sets(live))]


def _of_service(row: sa.Row[Any], resizing: Resizing | None) -> Holding:
    cpu, memory = row.cpu_millis, row.memory_gbs
    if resizing is not None:
        cpu, memory = resizing.most_cpu_millis, resizing.most_memory_gbs
    is_fork = row.parent_service_id is not None
    return Holding(row.name, is_fork, False, cpu or 0, memory or 0, row.storage_mb or 0, row.made_by)


def _sets(live: sa.ColumnElement[bool]) -> sa.Select[Any]:
    of_live = replica_set.join(service, service.c.id == replica_set.c.service_id)
    columns = (replica_set.c.name, replica_set.c.nodes, replica_set.c.cpu_millis, replica_set.c.memory_gbs)
    return sa.select(*columns, service.c.made_by).select_from(of_live).where(live, is_live(replica_set))


def _of_set(row: sa.Row[Any]) -> Holding:
    nodes = len(row.nodes)
    cpu, memory = nodes * (row.cpu_millis or 0), nodes * (row.memory_gbs or 0)
    return Holding(row.name, False, True, cpu, memory, 0, row.made_by)
