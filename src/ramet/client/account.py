"""Whose key it is, and what clients of other servers tell about themselves; Ramet records none of that."""

from collections.abc import Mapping

from ramet.api.schemas.account import AuthInfo
from ramet.api.schemas.analytics import AnalyticsResult
from ramet.api.schemas.projects import Project
from ramet.client.connection import Connection


class Account(Connection):
    """The verbs over the key and its project."""

    def auth_info(self) -> AuthInfo:
        """Return whose key this is."""
        return self.call("GET", "/auth/info", AuthInfo)

    def logout(self) -> None:
        """End a session. API keys have none: revoke the key to end its use."""
        self.send("POST", "/auth/logout")

    def list_projects(self) -> list[Project]:
        """Return the project that the key opens."""
        return self.call("GET", "/projects", list[Project])

    def identify_user(self, properties: Mapping[str, object] | None = None) -> AnalyticsResult:
        """Say who uses the client; it is forgotten at once."""
        return self.call("POST", "/analytics/identify", AnalyticsResult, {"properties": properties or {}})

    def track_event(self, event: str, properties: Mapping[str, object] | None = None) -> AnalyticsResult:
        """Say what the client is used for; it is forgotten at once."""
        return self.call("POST", "/analytics/track", AnalyticsResult, {"event": event, "properties": properties or {}})
