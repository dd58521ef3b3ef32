"""Rows of forks that were made in advance, and of the services that keep them."""

from collections.abc import Collection
from datetime import datetime, timedelta

import sqlalchemy as sa

from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.service import Service
from ramet.store import services
from ramet.store.tables import operation, project, service

_LONGEST_TO_MAKE = timedelta(days=1)


def unclaimed_forks(tx: sa.Connection, parent_id: str | None = None) -> list[Service]:
    """Return the unclaimed forks of a service, or of all, oldest first, that are neither deleted nor failed."""
    of_parent = () if parent_id is None else (service.c.parent_service_id == parent_id,)
    return services.live_services(tx, service.c.unclaimed.is_(True), *of_parent)


def services_with(tx: sa.Connection, setting: str) -> list[Service]:
    """Return the services that have a setting, neither deleted nor failed."""
    return services.live_services(tx, service.c.settings[setting].as_string().is_not(None))


def services_among(tx: sa.Connection, ids: Collection[str]) -> list[Service]:
    """Return those of these services that are neither deleted nor failed."""
    return services.live_services(tx, service.c.id.in_(ids)) if ids else []


def count_fitting(tx: sa.Connection, since: datetime, recent: datetime, until: datetime) -> dict[str, tuple[int, int]]:
    """Count the forks of each service that clients have asked for since a time, and those since a later time.

    Only forks count that a warm one may have been given for: as of now, as DEV, of their parent's size, never asleep.
    Those after `until` were made before the clock was set back.
    """
    parent = service.alias("parent")
    in_time = (service.c.created_at > since) & (service.c.created_at <= until)
    fits = in_time & service.c.project_id.in_(sa.select(project.c.id))  # all are: so the index of the listing serves
    fits &= service.c.unclaimed.is_(False) & service.c.sleep_after_seconds.is_(None)
    fits &= (service.c.fork_strategy == ForkStrategy.NOW.value) & (service.c.environment == Environment.DEV.value)
    for column in ("cpu_millis", "memory_gbs"):
        fits &= service.c[column].is_not_distinct_from(parent.c[column])
    late = sa.func.count(sa.case((service.c.created_at > recent, 1)))
    asked = service.join(parent, parent.c.id == service.c.parent_service_id)
    found = sa.select(parent.c.id, sa.func.count(), late).select_from(asked).where(fits).group_by(parent.c.id)
    return {parent_id: (every, last) for parent_id, every, last in tx.execute(found)}


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
