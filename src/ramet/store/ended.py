"""Removing the rows of services and read replica sets that ended long ago, and that nothing needs any more."""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from ramet.store.services import LATEST_FORKS
from ramet.store.tables import (
    hold,
    idempotency,
    is_ready_fork_of_now,
    login,
    operation,
    project,
    replica_set,
    service,
    snapshot,
)


def remove_sets(tx: sa.Connection, before: datetime, limit: int) -> int:
    """Remove up to `limit` read replica sets that ended before a time and have no operation; return how many."""
    old = sa.select(replica_set.c.id).where(_ended(replica_set, before)).limit(limit)
    return int(tx.execute(replica_set.delete().where(replica_set.c.id.in_(old))).rowcount)


def unneeded_services(tx: sa.Connection, before: datetime, limit: int) -> list[str]:
    """Return up to `limit` services that were deleted or failed before a time, and that nothing needs.

    A service stays while it has an operation, rows of its own, or a fork whose row stays, while a request is remembered
    that made it, and while the off-host archive has something of it. Recovered ones stay for good, because an earlier
    catalogue of the archive has them. For as long as their parent exists, so do its latest forks as of now, because a
    fork of its last snapshot must hold as much, and those on which its upgrades were tried, which have the reports.
    """
    child = service.alias("child")
    own = [each.c.service_id for each in (idempotency, replica_set, snapshot, login, hold)]
    # Each by itself: PostgreSQL reads all keys for each service where they stand in one condition with others.
    needless = [~sa.exists().where(column == service.c.id) for column in (child.c.parent_service_id, *own)]
    old = _ended(service, before) & service.c.archive_from.is_(None) & service.c.recovered.is_(False)
    old &= service.c.project_id.in_(sa.select(project.c.id))  # all are: so the index of the listing serves
    old &= service.c.created_at < before
    found = sa.select(service.c.id).where(old, *needless, ~_tells_of_its_parent())
    return list(tx.scalars(found.limit(limit)))


def remove_services(tx: sa.Connection, before: datetime, ids: Collection[str]) -> int:
    """Remove those of these services that still have ended before a time and have no operation; return how many."""
    return int(tx.execute(service.delete().where(service.c.id.in_(ids), _ended(service, before))).rowcount)


def _ended(table: sa.Table, before: datetime) -> sa.ColumnElement[bool]:
    """Return the condition for rows that ended before a time, and that no operation is about or has claimed."""
    ended = sa.func.coalesce(table.c.deleted_at, table.c.failed_at) < before
    return ended & table.c.operation_id.is_(None) & ~sa.exists().where(operation.c.subject == table.c.id)


def _tells_of_its_parent() -> sa.ColumnElement[bool]:
    fork, parent = service.alias("fork"), service.alias("parent")
    same = (fork.c.parent_service_id == service.c.parent_service_id) & fork.c.unclaimed.is_(False)
    same &= fork.c.ready_at.is_not(None) & (fork.c.fork_strategy == sa.literal_column("'NOW'"))
    latest = sa.select(fork.c.ready_at).where(same).order_by(fork.c.ready_at.desc()).offset(LATEST_FORKS - 1).limit(1)
    since = sa.func.coalesce(latest.scalar_subquery(), service.c.ready_at)
    is_late = is_ready_fork_of_now & service.c.unclaimed.is_(False) & (service.c.ready_at >= since)
    is_trial: sa.ColumnElement[bool] = service.c.report["upgrade"]["to_version"].as_string().is_not(None)
    lives = parent.c.deleted_at.is_(None) & parent.c.failed_at.is_(None)
    return sa.exists().where(parent.c.id == service.c.parent_service_id, lives) & (is_late | is_trial)
