"""The restore window of a service with its snapshots and timeline. Pages work even when the host cannot report it."""

from dataclasses import dataclass, field
from datetime import datetime

from ramet.console.views.timeline import Timeline, draw, shown_period
from ramet.console.views.wal_volume import WalVolume, wal_volume_over_time
from ramet.control.metrics import wal_growth
from ramet.control.plane import Plane
from ramet.control.restore import PendingSnapshot, get_restore_window, list_snapshots, written_bytes
from ramet.errors import Error, NotFound
from ramet.model.restore_window import RestoreSettings, RestoreWindow
from ramet.model.service import Service
from ramet.model.snapshot import Snapshot, newest


@dataclass(frozen=True)
class RestoreView:
    """The restore points of a service: its snapshots, newest first, and manual ones that are being taken."""

    timeline: Timeline | None = None
    snapshots: list[Snapshot] = field(default_factory=list)
    pending: list[PendingSnapshot] = field(default_factory=list)
    settings: RestoreSettings = field(default_factory=RestoreSettings)
    problem: str = ""
    next_snapshot_at: datetime | None = None

    @property
    def newest(self) -> Snapshot | None:
        """The newest snapshot, or None."""
        return self.snapshots[0] if self.snapshots else None


def restore_view(plane: Plane, service: Service, span_seconds: int | None = None) -> RestoreView:
    """Return the restore window of a service, or its last seconds; an empty one while the service is being created."""
    if service.ready_at is None:
        return RestoreView()
    try:
        window = get_restore_window(plane, service.project_id, service.id)
        snapshots = sorted(window.snapshots, key=lambda one: one.taken_at, reverse=True)
        listed = list_snapshots(plane, service.project_id, service.id)
        pending = [one for one in listed if isinstance(one, PendingSnapshot)]
        timeline = draw(window, _volumes(plane, service, window, span_seconds), span_seconds)
        return RestoreView(timeline, snapshots, pending, window.settings, next_snapshot_at=window.next_snapshot_at)
    except NotFound:
        raise
    except (Error, OSError) as error:
        return RestoreView(problem=f"The restore window cannot be read: {error}")


def _volumes(plane: Plane, service: Service, window: RestoreWindow, span_seconds: int | None) -> list[WalVolume]:
    period = shown_period(window, span_seconds)
    if period is None:
        return []
    growth = wal_growth(plane, service.id, *period)
    snapshots = sorted(window.snapshots, key=lambda one: one.taken_at)
    return wal_volume_over_time(snapshots, growth, written_bytes(plane, service, newest(snapshots)), period[1])
