"""Filling the shapes of a service's past from the model's values."""

from ramet.api.schemas import restore as schemas
from ramet.api.schemas.restore import ClockStep, Gap, SnapshotStatus
from ramet.control.restore import PendingSnapshot
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.model.window import RestoreWindow


def window_shape(window: RestoreWindow) -> schemas.RestoreWindow:
    """Return what clients see of a restore window."""
    settings = window.settings
    return schemas.RestoreWindow(
        earliest=window.earliest,
        latest=window.latest,
        snapshots=[snapshot_shape(snapshot) for snapshot in window.snapshots],
        gaps=[Gap(gap.begins_at, gap.ends_at, gap.reason) for gap in window.gaps],
        clock_steps=[ClockStep(step.before, step.after) for step in window.clock_steps],
        window_days=settings.window_days,
        snapshot_interval_seconds=settings.snapshot_interval_seconds,
        snapshot_wal_bytes=settings.snapshot_wal_bytes,
    )


def snapshot_shape(snapshot: Snapshot | PendingSnapshot) -> schemas.Snapshot:
    """Return what clients see of a snapshot, taken or on its way."""
    if isinstance(snapshot, PendingSnapshot):
        return schemas.Snapshot(
            id=snapshot.id,
            service_id=snapshot.service_id,
            name=snapshot.name,
            kind=SnapshotKind.MANUAL,
            status=SnapshotStatus.CREATING,
            time=None,
            lsn=None,
            size_bytes=None,
        )
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
