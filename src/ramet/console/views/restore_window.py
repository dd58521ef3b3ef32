"""The past of a service as pages show it: window, snapshots, time line. A host that cannot tell spoils no page."""

from dataclasses import dataclass, field

from ramet.console.views.timeline import Timeline, draw, stretch_of
from ramet.console.views.wal_volume import WalVolume, wal_volume_over_time
from ramet.control.metrics import wal_growth
from ramet.control.plane import Plane
from ramet.control.restore import PendingSnapshot, get_restore_window, list_snapshots, written_bytes
from ramet.errors import Error, NotFound
from ramet.model.service import Service
from ramet.model.snapshot import Snapshot, newest
from ramet.model.window import RestoreSettings, RestoreWindow


@dataclass(frozen=True)
class RestoreView:
    """What a service can be forked as of; snapshots newest first, and those that are being made by hand."""

    timeline: Timeline | None = None
    snapshots: list[Snapshot] = field(default_factory=list)
    pending: list[PendingSnapshot] = field(default_factory=list)
    settings: RestoreSettings = field(default_factory=RestoreSettings)
    problem: str = ""

    @property
    def newest(self) -> Snapshot | None:
        """The newest snapshot, or None."""
        return self.snapshots[0] if self.snapshots else None


def restore_view(plane: Plane, service: Service, span_seconds: int | None = None) -> RestoreView:
    """Return the past of a service, or of its last seconds; none while it is being made."""
    if service.ready_at is None:
        return RestoreView()
    try:
        found = get_restore_window(plane, service.project_id, service.id)
        known = sorted(found.snapshots, key=lambda one: one.taken_at, reverse=True)
        listed = list_snapshots(plane, service.project_id, service.id)
        pending = [one for one in listed if isinstance(one, PendingSnapshot)]
        drawn = draw(found, _writes(plane, service, found, span_seconds), span_seconds)
        return RestoreView(drawn, known, pending, found.settings)
    except NotFound:
        raise
    except (Error, OSError) as error:
        return RestoreView(problem=f"Its past cannot be told now: {error}")


def _writes(plane: Plane, service: Service, found: RestoreWindow, span_seconds: int | None) -> list[WalVolume]:
    stretch = stretch_of(found, span_seconds)
    if stretch is None:
        return []
    growth = wal_growth(plane, service.id, *stretch)
    snapshots = sorted(found.snapshots, key=lambda one: one.taken_at)
    return wal_volume_over_time(snapshots, growth, written_bytes(plane, service, newest(snapshots)), stretch[1])
