"""Where the data of a fork came from: its ancestors, deleted ones included."""

import sqlalchemy as sa

from ramet.model.restore_point import Ancestor
from ramet.model.service import Service
from ramet.model.snapshot import rollable
from ramet.store import services, snapshots

_LONGEST_LINE = 1000


def ancestors_of(tx: sa.Connection, service: Service) -> list[Ancestor]:
    """Return the ancestors of a fork, nearest first, as far as they are known."""
    found: list[Ancestor] = []
    current: Service | None = service
    while current is not None and current.origin is not None and len(found) < _LONGEST_LINE:
        current = services.get_service(tx, current.origin.service_id)
        if current is not None:
            found.append(_ancestor(tx, current))
    return found


def _ancestor(tx: sa.Connection, service: Service) -> Ancestor:
    kept = rollable(snapshots.list_snapshots(tx, service.id))
    return Ancestor(
        service_id=service.id,
        name=service.name,
        created_at=service.created_at,
        is_gone=service.deleted_at is not None or service.failed_at is not None,
        is_fork=service.origin is not None,
        earliest=min((snapshot.taken_at for snapshot in kept), default=None),
    )
