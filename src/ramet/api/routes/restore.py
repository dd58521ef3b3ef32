"""Restore windows and their settings, and snapshots."""

import msgspec
from litestar import Response
from litestar.params import JSONBody

from ramet.api.parameters import SnapshotId
from ramet.api.responses import (
    ServicePath,
    accept,
    accept_deletion,
    answer,
    empty,
    read,
    read_in_thread,
    router_of,
    update,
)
from ramet.api.schemas import restore as schemas
from ramet.api.schemas.restore import RestoreSettings, SnapshotCreate, SnapshotStatus
from ramet.control import restore
from ramet.control.restore import PendingSnapshot
from ramet.model.restore_window import RestoreWindow
from ramet.model.snapshot import Snapshot, SnapshotKind


@read_in_thread("/restoreWindow", operation_id="getRestoreWindow", summary="Get the restore window")
def get_restore_window(at: ServicePath) -> Response[schemas.RestoreWindow]:
    """The times that a PITR fork of this service can be restored to, the snapshots in between, and the gaps."""
    return answer(_window_shape(restore.get_restore_window(*at)))


@update("/restoreSettings", operation_id="updateRestoreSettings", summary="Change the restore settings")
def update_restore_settings(at: ServicePath, data: JSONBody[RestoreSettings]) -> Response[schemas.RestoreWindow]:
    """Set how far back this service can be restored, and after how much time or WAL the next snapshot is due."""
    names = ("window_days", "snapshot_interval_seconds", "snapshot_wal_bytes")
    changes = {name: value for name in names if (value := getattr(data, name)) is not msgspec.UNSET}
    return answer(_window_shape(restore.change_restore_settings(*at, changes)))


@read("/snapshots", operation_id="getSnapshots", summary="List snapshots")
def list_snapshots(at: ServicePath) -> Response[list[schemas.Snapshot]]:
    """Every snapshot of the service, oldest first, followed by manual ones that are still being taken."""
    return answer([snapshot_shape(one) for one in restore.list_snapshots(*at)])


@accept("/snapshots", operation_id="createSnapshot", summary="Take a snapshot")
def create_snapshot(at: ServicePath, data: JSONBody[SnapshotCreate | None] = None) -> Response[schemas.Snapshot]:
    """Accept a manual snapshot. It becomes AVAILABLE shortly after, and is kept until it is deleted."""
    name = None if data is None or data.name is msgspec.UNSET else data.name
    return answer(snapshot_shape(restore.take_snapshot(*at, name)), 202)


@accept_deletion("/snapshots/{snapshot_id:str}", operation_id="deleteSnapshot", summary="Delete a manual snapshot")
def delete_snapshot(at: ServicePath, snapshot_id: SnapshotId) -> Response[None]:
    """Accept the deletion of a manual snapshot. Its forks are not affected."""
    restore.delete_snapshot(*at, snapshot_id)
    return empty(202)


def _window_shape(window: RestoreWindow) -> schemas.RestoreWindow:
    settings, held = window.settings, window.archive
    return schemas.RestoreWindow(
        earliest=window.earliest,
        latest=window.latest,
        snapshots=[snapshot_shape(snapshot) for snapshot in window.snapshots],
        gaps=msgspec.convert(window.gaps, list[schemas.Gap], from_attributes=True),
        clock_steps=msgspec.convert(window.clock_steps, list[schemas.ClockStep], from_attributes=True),
        window_days=settings.window_days,
        snapshot_interval_seconds=settings.snapshot_interval_seconds,
        snapshot_wal_bytes=settings.snapshot_wal_bytes,
        archive=None if held is None else schemas.ArchiveWindow(held.earliest, held.latest),
        next_snapshot_at=window.next_snapshot_at or msgspec.UNSET,
    )


def snapshot_shape(snapshot: Snapshot | PendingSnapshot) -> schemas.Snapshot:
    """Return what clients see of a snapshot, taken or requested."""
    if isinstance(snapshot, PendingSnapshot):
        kind, status = SnapshotKind.MANUAL, SnapshotStatus.CREATING
        return schemas.Snapshot(snapshot.id, snapshot.service_id, snapshot.name, kind, status, None, None, None)
    return schemas.Snapshot(
        id=snapshot.id,
        service_id=snapshot.service_id,
        name=snapshot.name,
        kind=snapshot.kind,
        status=SnapshotStatus.AVAILABLE,
        time=snapshot.taken_at,
        lsn=snapshot.end_lsn,
        size_bytes=snapshot.size_bytes,
    )


restore_router = router_of(__name__, "Restore")
