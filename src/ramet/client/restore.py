"""The past of a service: its restore window, snapshots, fork reports and plans."""

from msgspec import UNSET, UnsetType

from ramet.api.schemas.forks import ForkPlan, ForkReport
from ramet.api.schemas.restore import RestoreWindow, Snapshot
from ramet.client.connection import Connection, given
from ramet.model.fork import ForkStrategy


class Restore(Connection):
    """What a service can be restored to, and what a fork holds."""

    def restore_window(self, service_id: str) -> RestoreWindow:
        """Return the moments to which a service can be forked, and its snapshots."""
        return self.call("GET", self.path(service_id, "restoreWindow"), RestoreWindow)

    def update_restore_settings(
        self,
        service_id: str,
        *,
        window_days: int | UnsetType | None = UNSET,
        snapshot_interval_seconds: int | UnsetType | None = UNSET,
        snapshot_wal_bytes: int | UnsetType | None = UNSET,
    ) -> RestoreWindow:
        """Set how far back a service can be restored and when a snapshot is due; None goes back to the default."""
        settings = {
            "window_days": window_days,
            "snapshot_interval_seconds": snapshot_interval_seconds,
            "snapshot_wal_bytes": snapshot_wal_bytes,
        }
        body = {name: value for name, value in settings.items() if value is not UNSET}
        return self.call("PUT", self.path(service_id, "restoreSettings"), RestoreWindow, body)

    def list_snapshots(self, service_id: str) -> list[Snapshot]:
        """Return the snapshots of a service, oldest first, and then those that are being made by hand."""
        return self.call("GET", self.path(service_id, "snapshots"), list[Snapshot])

    def take_snapshot(self, service_id: str, name: str | None = None) -> Snapshot:
        """Ask for a snapshot; it is AVAILABLE a moment later, and stays until it is deleted."""
        return self.call("POST", self.path(service_id, "snapshots"), Snapshot, given(name=name))

    def delete_snapshot(self, service_id: str, snapshot_id: str) -> None:
        """Ask for a manual snapshot to be deleted."""
        self.send("DELETE", self.path(service_id, "snapshots", snapshot_id))

    def fork_report(self, service_id: str) -> ForkReport:
        """Return what exactly a READY fork holds."""
        return self.call("GET", self.path(service_id, "forkReport"), ForkReport)

    def plan_fork(self, service_id: str, strategy: ForkStrategy, **fields: str | None) -> ForkPlan:
        """Return what a fork with these fields of a request would be; nothing is made."""
        body = {"fork_strategy": strategy, **given(**fields)}
        return self.call("POST", self.path(service_id, "forkService") + "?dry_run=true", ForkPlan, body)
