"""Rows of forks that were made in advance, and of the services that keep them."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa

from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.service import Service
from ramet.store import replica_sets, services
from ramet.store.tables import is_live, operation, project, service

_unclaimed = services.live(service.c.unclaimed.is_(True))
_LONGEST_TO_MAKE = timedelta(days=1)
_count_unclaimed = sa.select(sa.func.count()).where(
    is_live(service), service.c.unclaimed.is_(True), service.c.parent_service_id == sa.bindparam("parent_id")
)


def unclaimed_forks(tx: sa.Connection, parent_id: str | None = None) -> list[Service]:
    """Return the unclaimed forks of a service, or of all, oldest first, that are neither deleted nor failed."""
    if parent_id is None:
        return services.matching(tx, _unclaimed)
    return services.matching(tx, _unclaimed.where(service.c.parent_service_id == parent_id))


def has_unclaimed_forks(tx: sa.Connection, parent_id: str, count: int) -> bool:
    """Tell whether a service has so many unclaimed forks that are neither deleted nor failed."""
    return int(tx.scalar(_count_unclaimed, {"parent_id": parent_id}) or 0) >= count


def services_with(tx: sa.Connection, setting: str) -> list[Service]:
    """Return the services that have a setting, neither deleted nor failed."""
    return services.matching(tx, _with(setting))


@cache
def _with(setting: str) -> sa.Select[Any]:
    return services.live(service.c.settings[setting].as_string().is_not(None))


def services_among(tx: sa.Connection, ids: Collection[str]) -> list[Service]:
    """Return those of these services that are neither deleted nor failed."""
    return services.live_services(tx, service.c.id.in_(ids)) if ids else []


def fitting_forks(
    tx: sa.Connection, since: datetime, until: datetime
) -> dict[str, list[tuple[datetime, Mapping[str, Any]]]]:
    """Return when clients have asked for forks of each service, in their order, and the settings of these forks.

    Only forks that a warm one may have been given for: as of now, as DEV, of their parent's size, never asleep. Those
    after `until` were made before the clock was set back.
    """
    parent, found = service.alias("parent"), dict[str, list[tuple[datetime, Mapping[str, Any]]]]()
    in_time = (service.c.created_at > since) & (service.c.created_at <= until)
    fits = in_time & service.c.project_id.in_(sa.select(project.c.id))  # all are: so the index of the listing serves
    fits &= service.c.unclaimed.is_(False) & service.c.sleep_after_seconds.is_(None)
    fits &= (service.c.fork_strategy == ForkStrategy.NOW.value) & (service.c.environment == Environment.DEV.value)
    for column in ("cpu_millis", "memory_gbs"):
        fits &= service.c[column].is_not_distinct_from(parent.c[column])
    asked = service.join(parent, parent.c.id == service.c.parent_service_id)
    query = sa.select(parent.c.id, service.c.created_at, service.c.settings).select_from(asked).where(fits)
    for parent_id, at, settings in tx.execute(query.order_by(service.c.created_at)):
        found.setdefault(parent_id, []).append((at, settings))
    return found


def count_ports(tx: sa.Connection) -> int:
    """Count the ports of what clients have, without warm forks that nobody has claimed."""
    kinds = [sa.func.count(service.c[name]) for name in ("port", "pooler_port", "server_port")]
    live = is_live(service) & service.c.unclaimed.is_(False)
    return sum(tx.execute(sa.select(*kinds).where(live)).one()) + len(replica_sets.used_ports(tx))


def has_failed_since(tx: sa.Connection, parent_id: str, since: datetime) -> bool:
    """Tell whether an unclaimed fork of a service could not be made after a time."""
    project_id = sa.select(service.c.project_id).where(service.c.id == parent_id).scalar_subquery()
    failed = service.c.unclaimed.is_(True) & (service.c.parent_service_id == parent_id) & (service.c.failed_at > since)
    failed &= (service.c.project_id == project_id) & (service.c.created_at > since - _LONGEST_TO_MAKE)  # by the index
    return tx.execute(sa.select(service.c.id).where(failed).limit(1)).first() is not None


def ended_since(tx: sa.Connection, subject: str, procedures: Collection[str], since: datetime) -> bool:
    """Tell whether one of these procedures on a subject is under way, or has ended after a time."""
    own = (operation.c.subject == subject) & operation.c.procedure.in_(procedures)
    late = operation.c.finished_at.is_(None) | (operation.c.finished_at >= since)
    return tx.execute(sa.select(operation.c.id).where(own, late).limit(1)).first() is not None
