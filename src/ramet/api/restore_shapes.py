"""Filling the shapes of a service's past from the model's values."""

from ramet.api import wire_restore
from ramet.control.windows import PendingSnapshot
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.model.window import RestoreWindow


def window_shape(window: RestoreWindow) -> wire_restore.RestoreWindow:
    """Return what clients see of a restore window."""
    settings = window.settings
    return wire_restore.RestoreWindow(
        earliest=window.earliest,
        latest=window.latest,
        snapshots=[snapshot_shape(snapshot) for snapshot in window.snapshots],
        gaps=[wire_restore.Gap(gap.begins_at, gap.ends_at, gap.reason) for gap in window.gaps],
        clock_steps=[wire_restore.ClockStep(step.before, step.after) for step in window.clock_steps],
        window_days=settings.window_days,
        snapshot_interval_seconds=settings.snapshot_interval_seconds,
        snapshot_wal_bytes=settings.snapshot_wal_bytes,
    )


def snapshot_shape(snapshot: Snapshot | PendingSnapshot) -> wire_restore.Snapshot:
    """Return what clients see of a snapshot, taken or on its way."""
    if isinstance(snapshot, PendingSnapshot):
        return wire_restore.Snapshot(
            id=snapshot.id,
            service_id=snapshot.service_id,
            name=snapshot.name,
            kind=SnapshotKind.MANUAL,
            status=wire_restore.SnapshotStatus.CREATING,
            time=None,
            lsn=None,
            size_bytes=None,
        )
    return wire_restore.Snapshot(
        id=snapshot.id,
        service_id=snapshot.service_id,
        name=snapshot.name,
        kind=snapshot.kind,
        status=wire_restore.SnapshotStatus.AVAILABLE,
        time=snapshot.taken_at,
        lsn=snapshot.end_lsn,
        size_bytes=snapshot.size_bytes,
    )
