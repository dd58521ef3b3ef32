"""The verbs over the restore window of a service, its settings, and snapshots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import sqlalchemy as sa

from ramet.control.lookup import find_service, wrong_state
from ramet.control.plane import Plane
from ramet.errors import Invalid, NotFound
from ramet.model.archive import ArchiveSpan, span_of
from ramet.model.gaps import Gap
from ramet.model.names import check_name
from ramet.model.procedures import ProcedureName
from ramet.model.restore_window import (
    RestoreSettings,
    RestoreWindow,
    defaults_for,
    restore_window,
    settings_of,
    with_settings,
)
from ramet.model.service import Service, shown_status
from ramet.model.snapshot import Snapshot, SnapshotKind, newest, rollable
from ramet.model.status import READY_OR_PAUSED
from ramet.procedures.postponed import postponed_until
from ramet.procedures.servers import server_of, submit_snapshot
from ramet.procedures.spec import submit
from ramet.procedures.state import OneSnapshotState, SnapshotState
from ramet.store import operations, services, snapshots


@dataclass(frozen=True)
class PendingSnapshot:
    """A snapshot that was asked for by hand and is not taken yet."""

    id: str
    service_id: str
    name: str | None


def get_restore_window(plane: Plane, project_id: str, service_id: str) -> RestoreWindow:
    """Return the restore window of a service."""
    with plane.store.read() as tx:
        service = find_service(plane, tx, project_id, service_id)
        known = snapshots.list_snapshots(tx, service.id)
        last = newest(known)
        next_at = postponed_until(tx, service.id, last, plane.clock())
    gaps, now = gaps_of(plane, service.id, known), plane.clock()
    window = restore_window(known, gaps, settings_in_force(plane, service, last), now, archive_of(plane, service))
    return replace(window, next_snapshot_at=next_at)


def settings_in_force(plane: Plane, service: Service, last: Snapshot | None) -> RestoreSettings:
    """Return the restore settings of a service whose newest snapshot is `last`."""
    return settings_of(service.settings, _defaults(plane, last))


def _defaults(plane: Plane, last: Snapshot | None) -> RestoreSettings:
    return defaults_for(plane.restore, plane.backend.host.volume_type(), last)


def archive_of(plane: Plane, service: Service) -> ArchiveSpan | None:
    """Return the times of a service that the off-host archive of this installation holds."""
    return None if plane.backend.archive.url() is None else span_of(service)


def gaps_of(plane: Plane, service_id: str, known: Sequence[Snapshot]) -> Sequence[Gap]:
    """Return the gaps in the restore window that the snapshots of a service open. Reads WAL on the host."""
    leading = rollable(list(known))
    return plane.backend.restore.gaps(service_id, leading) if leading else ()


def change_restore_settings(
    plane: Plane, project_id: str, service_id: str, changes: Mapping[str, int | None]
) -> RestoreWindow:
    """Change how far back a service can be restored, or when its snapshots are due; None takes the default."""
    with plane.store.write() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        defaults = _defaults(plane, newest(snapshots.list_snapshots(tx, service.id)))
        settings = with_settings(service.settings, defaults, changes)
        services.update_service(tx, service.id, settings=settings)
    return get_restore_window(plane, project_id, service_id)


def list_snapshots(plane: Plane, project_id: str, service_id: str) -> list[Snapshot | PendingSnapshot]:
    """Return the snapshots of a service, oldest first, and after them those that are being made by hand."""
    with plane.store.read() as tx:
        service = find_service(plane, tx, project_id, service_id)
        known = snapshots.list_snapshots(tx, service.id)
        pending = pending_snapshots(tx, service.id, known)
    return [*known, *pending]


def check_snapshots(plane: Plane) -> None:
    """Raise Invalid where the storage takes no snapshots."""
    if plane.backend.copies.are_needed():
        raise Invalid(
            "NO_SNAPSHOTS",
            "The storage of this Ramet takes no snapshots",
            "Fork with NOW, which copies all data, or with PITR to a time that the off-host archive has.",
        )


def take_snapshot(plane: Plane, project_id: str, service_id: str, name: str | None) -> PendingSnapshot:
    """Accept a manual snapshot, which stays until it is deleted."""
    check_snapshots(plane)
    if name is not None:
        check_name(name)
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        if shown_status(service) not in READY_OR_PAUSED:
            raise wrong_state(service, "a snapshot", READY_OR_PAUSED)
        snapshot_id = submit_snapshot(tx, service.id, SnapshotKind.MANUAL, name)
    return PendingSnapshot(snapshot_id, service.id, name)


def delete_snapshot(plane: Plane, project_id: str, service_id: str, snapshot_id: str) -> None:
    """Accept the deletion of a manual snapshot; forks that are being made from it are finished first."""
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        found = [one for one in snapshots.list_snapshots(tx, service.id) if one.id == snapshot_id]
        if not found:
            raise NotFound("SNAPSHOT_NOT_FOUND", "no snapshot with that id exists", f"snapshot_id {snapshot_id[:64]!r}")
        if found[0].kind is not SnapshotKind.MANUAL:
            raise snapshot_in_use_error(found[0])
        submit(tx, ProcedureName.DELETE_SNAPSHOT, service.id, OneSnapshotState(snapshot_id=snapshot_id))


def written_bytes(plane: Plane, service: Service, last: Snapshot | None) -> int | None:
    """Return the WAL that a service wrote since its newest snapshot; None while its server does not serve."""
    if last is None or service.paused:
        return None
    return plane.backend.restore.written_since(server_of(service), last)


def snapshot_in_use_error(snapshot: Snapshot) -> Invalid:
    """Return the refusal to delete a snapshot that was not made by hand."""
    return Invalid(
        "SNAPSHOT_IN_USE",
        f"Snapshot {snapshot.id} belongs to the restore window of service {snapshot.service_id}",
        "It is removed when the restore window no longer needs it; only manual snapshots can be deleted.",
    )


def pending_snapshots(tx: sa.Connection, service_id: str, known: Sequence[Snapshot]) -> list[PendingSnapshot]:
    """Return the snapshots that are being taken by hand, and are not among those that are known."""
    rows = operations.under_way_of(tx, service_id, ProcedureName.SNAPSHOT)
    taken = {snapshot.id for snapshot in known}
    states = [msgspec.convert(row.state, SnapshotState) for row in rows]
    return [
        PendingSnapshot(state.snapshot_id, service_id, state.name)
        for state in states
        if state.kind is SnapshotKind.MANUAL and state.snapshot_id not in taken
    ]
