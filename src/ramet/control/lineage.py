"""Where a service's data came from: for a moment before its birth, which ancestor to ask."""

from datetime import datetime

import sqlalchemy as sa

from ramet.errors import Invalid
from ramet.model.fork import shown
from ramet.model.service import Service
from ramet.model.snapshot import rollable
from ramet.store import services, snapshots

_LONGEST_LINE = 1000


def before_birth(tx: sa.Connection, service: Service, target: datetime, now: datetime) -> Invalid | None:
    """Return the error for a moment before a fork was born, which names the ancestor to ask; None for others.

    The ancestor is the nearest one that lived at that moment, deleted or not.
    """
    if service.origin is None or target >= service.created_at:
        return None
    ancestor: Service | None = service
    for _ in range(_LONGEST_LINE):
        if ancestor is None or ancestor.origin is None or target >= ancestor.created_at:
            break
        ancestor = services.get_service(tx, ancestor.origin.service_id)
    return Invalid(
        "OUTSIDE_RESTORE_WINDOW",
        f"target_time {shown(target)} lies before the birth of service {service.id},"
        f" a fork made at {shown(service.created_at)}",
        _advice(tx, ancestor, target, now),
    )


def _advice(tx: sa.Connection, ancestor: Service | None, target: datetime, now: datetime) -> str:
    if ancestor is None:
        return "Its ancestor of that time is unknown here."
    named = f"its ancestor {ancestor.name!r} ({ancestor.id})"
    if ancestor.deleted_at is not None or ancestor.failed_at is not None:
        return f"That moment belonged to {named}, which is deleted, and is gone with it."
    if target < ancestor.created_at:
        return f"Not even {named} existed then; it was created at {shown(ancestor.created_at)}."
    times = [snapshot.taken_at for snapshot in rollable(snapshots.list_snapshots(tx, ancestor.id))]
    if not times:
        return f"Ask {named}, which has no restore window yet."
    return f"Ask {named}, whose restore window reaches from {shown(min(times))} to {shown(now)}."
