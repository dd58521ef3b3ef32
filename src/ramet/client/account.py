"""The API key and its project, and analytics, which Ramet does not record."""

from __future__ import annotations

from collections.abc import Mapping

from ramet.api import schemas
from ramet.client.connection import Connection


class Account(Connection):
    """The operations on the key and its project."""

    def auth_info(self) -> schemas.account.AuthInfo:
        """Return the API key and its project."""
        return self.call("GET", "/auth/info", schemas.account.AuthInfo)

    def get_certificate_authority(self) -> schemas.account.CertificateAuthority:
        """Return the authority that the certificates of all endpoints are of."""
        return self.call("GET", "/certificate-authority", schemas.account.CertificateAuthority)

    def logout(self) -> None:
        """End a session. API keys have none: revoke the key to end its use."""
        self.send("POST", "/auth/logout")

    def list_projects(self) -> list[schemas.account.Project]:
        """Return the project of the key."""
        return self.call("GET", "/projects", list[schemas.account.Project])

    def identify_user(self, properties: Mapping[str, object] | None = None) -> schemas.account.AnalyticsResult:
        """Report who uses the client; the server discards it."""
        return self.call(
            "POST", "/analytics/identify", schemas.account.AnalyticsResult, {"properties": properties or {}}
        )

    def track_event(
        self, event: str, properties: Mapping[str, object] | None = None
    ) -> schemas.account.AnalyticsResult:
        """Report what the client is used for; the server discards it."""
        return self.call(
            "POST",
            "/analytics/track",
            schemas.account.AnalyticsResult,
            {"event": event, "properties": properties or {}},
        )
