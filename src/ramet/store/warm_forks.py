"""Rows of forks that were made in advance, and of the services that keep them."""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from ramet.model.service import Service
from ramet.store import services
from ramet.store.tables import operation, service


def unclaimed_forks(tx: sa.Connection, parent_id: str | None = None) -> list[Service]:
    """Return the unclaimed forks of a service, or of all, oldest first, that are neither deleted nor failed."""
    of_parent = () if parent_id is None else (service.c.parent_service_id == parent_id,)
    return services.live_services(tx, service.c.unclaimed.is_(True), *of_parent)


def services_with(tx: sa.Connection, setting: str) -> list[Service]:
    """Return the services that have a setting, neither deleted nor failed."""
    return services.live_services(tx, service.c.settings[setting].as_string().is_not(None))


def has_failed_since(tx: sa.Connection, parent_id: str, since: datetime) -> bool:
    """Tell whether an unclaimed fork of a service could not be made after a time."""
    failed = service.c.unclaimed.is_(True) & (service.c.parent_service_id == parent_id) & (service.c.failed_at > since)
    return tx.execute(sa.select(service.c.id).where(failed).limit(1)).first() is not None


def ended_since(tx: sa.Connection, subject: str, procedures: Collection[str], since: datetime) -> bool:
    """Tell whether one of these procedures on a subject is under way, or has ended after a time."""
    own = (operation.c.subject == subject) & operation.c.procedure.in_(procedures)
    late = operation.c.finished_at.is_(None) | (operation.c.finished_at >= since)
    return tx.execute(sa.select(operation.c.id).where(own, late).limit(1)).first() is not None
