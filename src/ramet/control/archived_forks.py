"""Forks of what only the off-host archive has: times before the oldest snapshot, and services that were deleted."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from ramet.backends.interface.values import BaseBackup
from ramet.control.key_limits import as_parent_seen
from ramet.control.lookup import find_service, visible_service
from ramet.control.plane import Plane
from ramet.control.restore import archive_of
from ramet.errors import Invalid, NotFound, Unavailable
from ramet.ids import is_id
from ramet.model.archive import ArchiveSpan
from ramet.model.restore_point import Parent, RestorePoint
from ramet.model.service import Service
from ramet.model.snapshot import rollable
from ramet.model.timestamps import rfc3339
from ramet.procedures.servers import server_of
from ramet.store import services


@dataclass(frozen=True)
class DeletedService:
    """A deleted service, and the times at which it can still be forked."""

    service: Service
    held: ArchiveSpan


def list_deleted(plane: Plane, project_id: str) -> list[DeletedService]:
    """Return the deleted services of a project that can still be forked, in the order of their deletion."""
    with plane.store.read() as tx:
        known = services.deleted_in_archive(tx, project_id)
    seen = [one for one in known if not plane.hides(one)]
    return [DeletedService(one, held) for one in seen if (held := archive_of(plane, one)) is not None]


def find_parent(
    plane: Plane, tx: sa.Connection, project_id: str, service_id: str, *, from_deleted: bool, lock: bool = False
) -> Service:
    """Return the parent of a fork, which must have been deleted if that is asked for. Raises NotFound, Invalid."""
    if not from_deleted:
        return find_service(as_parent_seen(plane, service_id), tx, project_id, service_id, lock=lock)
    found = services.get_service(tx, service_id, lock=lock) if is_id(service_id) else None
    if found is None or found.project_id != project_id or plane.hides(found):
        details = f"service_id {service_id[:64]!r}"
        raise NotFound("SERVICE_NOT_FOUND", "no deleted service with that id is known here", details)
    if found.deleted_at is None:
        is_there = visible_service(plane, tx, project_id, service_id) is not None
        raise Invalid(
            "NOT_DELETED",
            f"Service {service_id} {'exists' if is_there else 'was never READY'}; from_deleted is for deleted services",
            "Leave from_deleted out." if is_there else "",
        )
    return found


def base_backup_for(plane: Plane, parent: Service, known: Parent, point: RestorePoint) -> BaseBackup:
    """Return the base backup in the archive that a fork starts from. Asks the archive."""
    try:
        found = plane.backend.archive.holdings(server_of(parent)).base_for(point.target)
    except Unavailable as error:
        raise Unavailable(error.code, f"{error.message}. {_reachable(known, point.target)}", error.details) from error
    if found is None:
        raise Invalid(
            "OUTSIDE_RESTORE_WINDOW",
            f"The off-host archive has no base backup of service {parent.id} any more"
            + ("" if point.target is None else f" from before {rfc3339(point.target)}"),
            "Choose a later time." if point.target is not None else "",
        )
    return found


def _reachable(known: Parent, target: datetime | None) -> str:
    """Say which times can be forked without the archive."""
    kept = [snapshot.taken_at for snapshot in rollable(list(known.snapshots))]
    asked = "This fork" if target is None else f"A fork of {rfc3339(target)}"
    if not kept:
        return f"{asked} needs it, so try again later"
    return f"{asked} needs it; times from {rfc3339(min(kept))} on can be forked without it"
