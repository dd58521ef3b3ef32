"""The off-host archive of a service."""

from __future__ import annotations

from ramet.api import schemas
from ramet.client.connection import Connection


class Archives(Connection):
    """Where services are archived off the host, and how far that is."""

    def get_archive(self, service_id: str) -> schemas.archive.Archive:
        """Return how far the off-host archive of a service is."""
        return self.call("GET", self.path(service_id, "archive"), schemas.archive.Archive)

    def update_archive(self, service_id: str, enabled: bool | None) -> schemas.archive.Archive:
        """Archive a service off the host, or stop that; None goes back to the default of its environment."""
        return self.call("PUT", self.path(service_id, "archive"), schemas.archive.Archive, {"enabled": enabled})

    def list_deleted_services(self) -> list[schemas.archive.DeletedService]:
        """Return the deleted services that can still be forked, out of the off-host archive."""
        return self.call("GET", self.project_path("deletedServices"), list[schemas.archive.DeletedService])
