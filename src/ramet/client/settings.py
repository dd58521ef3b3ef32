"""Settings of PostgreSQL that services have of their own."""

from collections.abc import Mapping

from ramet.api.schemas.services import Service
from ramet.api.schemas.settings import Settings
from ramet.client.connection import Connection


class ServiceSettings(Connection):
    """Reading and changing settings."""

    def get_settings(self, service_id: str) -> Settings:
        """Return the settings that a service can have of its own, and what is in force."""
        return self.call("GET", self.path(service_id, "settings"), Settings)

    def update_settings(
        self, service_id: str, settings: Mapping[str, str | int | float | bool | None], *, restart: bool = False
    ) -> Service:
        """Change settings, None resets one; wait as after a start. Without `restart` some may wait for the next one."""
        body = {"settings": settings, "restart": restart}
        return self.call("POST", self.path(service_id, "settings"), Service, body)
