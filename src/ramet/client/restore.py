"""Restore windows and their settings, and snapshots."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ramet.api import schemas
from ramet.client.connection import Connection, given


class Restore(Connection):
    """The operations on restore windows and snapshots."""

    def restore_window(self, service_id: str) -> schemas.restore.RestoreWindow:
        """Return the times to which a service can be restored, and its snapshots."""
        return self.call("GET", self.path(service_id, "restoreWindow"), schemas.restore.RestoreWindow)

    def update_restore_settings(
        self,
        service_id: str,
        *,
        window_days: int | UnsetType | None = UNSET,
        snapshot_interval_seconds: int | UnsetType | None = UNSET,
        snapshot_wal_bytes: int | UnsetType | None = UNSET,
    ) -> schemas.restore.RestoreWindow:
        """Set how far back a service can be restored and when a snapshot is due; None restores the default."""
        settings = {
            "window_days": window_days,
            "snapshot_interval_seconds": snapshot_interval_seconds,
            "snapshot_wal_bytes": snapshot_wal_bytes,
        }
        body = {name: value for name, value in settings.items() if value is not UNSET}
        return self.call("PUT", self.path(service_id, "restoreSettings"), schemas.restore.RestoreWindow, body)

    def list_snapshots(self, service_id: str) -> list[schemas.restore.Snapshot]:
        """Return the snapshots of a service, oldest first, followed by manual ones that are still being taken."""
        return self.call("GET", self.path(service_id, "snapshots"), list[schemas.restore.Snapshot])

    def take_snapshot(self, service_id: str, name: str | None = None) -> schemas.restore.Snapshot:
        """Request a manual snapshot; it becomes AVAILABLE shortly after, and is kept until it is deleted."""
        return self.call("POST", self.path(service_id, "snapshots"), schemas.restore.Snapshot, given(name=name))

    def delete_snapshot(self, service_id: str, snapshot_id: str) -> None:
        """Delete a manual snapshot."""
        self.send("DELETE", self.path(service_id, "snapshots", snapshot_id))
