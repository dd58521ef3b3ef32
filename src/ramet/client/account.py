"""The API key and its project, and analytics, which Ramet does not record."""

from collections.abc import Mapping

from ramet.api.schemas.account import AnalyticsResult, AuthInfo, CertificateAuthority, Project
from ramet.client.connection import Connection


class Account(Connection):
    """The operations on the key and its project."""

    def auth_info(self) -> AuthInfo:
        """Return the API key and its project."""
        return self.call("GET", "/auth/info", AuthInfo)

    def get_certificate_authority(self) -> CertificateAuthority:
        """Return the authority that the certificates of all endpoints are of."""
        return self.call("GET", "/certificate-authority", CertificateAuthority)

    def logout(self) -> None:
        """End a session. API keys have none: revoke the key to end its use."""
        self.send("POST", "/auth/logout")

    def list_projects(self) -> list[Project]:
        """Return the project of the key."""
        return self.call("GET", "/projects", list[Project])

    def identify_user(self, properties: Mapping[str, object] | None = None) -> AnalyticsResult:
        """Report who uses the client; the server discards it."""
        return self.call("POST", "/analytics/identify", AnalyticsResult, {"properties": properties or {}})

    def track_event(self, event: str, properties: Mapping[str, object] | None = None) -> AnalyticsResult:
        """Report what the client is used for; the server discards it."""
        return self.call("POST", "/analytics/track", AnalyticsResult, {"event": event, "properties": properties or {}})
