"""Settings of PostgreSQL that services have of their own."""

from __future__ import annotations

from collections.abc import Mapping

from ramet.api import schemas
from ramet.api.schemas.services import Service
from ramet.client.connection import Connection


class ServiceSettings(Connection):
    """Reading and changing settings."""

    def get_settings(self, service_id: str) -> schemas.settings.Settings:
        """Return the settings that a service can have of its own, and what is in force."""
        return self.call("GET", self.path(service_id, "settings"), schemas.settings.Settings)

    def update_settings(
        self, service_id: str, settings: Mapping[str, str | int | float | bool | None], *, restart: bool = False
    ) -> Service:
        """Change settings, None resets one; wait as after a start. Without `restart` some may wait for the next one."""
        body = {"settings": settings, "restart": restart}
        return self.call("POST", self.path(service_id, "settings"), Service, body)
