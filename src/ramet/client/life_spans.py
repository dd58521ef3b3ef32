"""Labels, protection and life spans of services, and the limits of the project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from msgspec import UNSET, UnsetType

from ramet.api import schemas
from ramet.api.schemas.services import Service
from ramet.client.connection import Connection


@dataclass(frozen=True)
class Keeping:
    """How long a new service is kept, and its labels. `expires_at` is RFC 3339; what is None is not requested."""

    ttl_seconds: int | None = None
    expires_at: str | None = None
    idle_ttl_seconds: int | None = None
    sleep_after_seconds: int | None = None
    protected: bool | None = None
    labels: Mapping[str, str] | None = None


class LifeSpans(Connection):
    """The operations on how long services are kept."""

    def extend_service(
        self,
        service_id: str,
        *,
        ttl_seconds: int | UnsetType | None = UNSET,
        expires_at: str | UnsetType | None = UNSET,
        idle_ttl_seconds: int | UnsetType | None = UNSET,
    ) -> Service:
        """Change when a service expires; None removes a part, and without any its life span begins again."""
        terms = {"ttl_seconds": ttl_seconds, "expires_at": expires_at, "idle_ttl_seconds": idle_ttl_seconds}
        body = {name: value for name, value in terms.items() if value is not UNSET}
        return self.call("POST", self.path(service_id, "extendService"), Service, body)

    def set_sleep(self, service_id: str, sleep_after_seconds: int | None) -> Service:
        """Change after how long without a client a service falls asleep; None: never. Its server may restart."""
        body = {"sleep_after_seconds": sleep_after_seconds}
        return self.call("POST", self.path(service_id, "setSleep"), Service, body)

    def set_protection(self, service_id: str, *, protected: bool = True) -> Service:
        """Refuse to delete, reset or restore a service, and do not let it expire; or allow that again."""
        return self.call("POST", self.path(service_id, "setProtection"), Service, {"protected": protected})

    def update_labels(self, service_id: str, changes: Mapping[str, str | None] | None = None) -> Service:
        """Set labels of a service, and remove those that are None."""
        return self.call("POST", self.path(service_id, "updateLabels"), Service, {"labels": dict(changes or {})})

    def project_limits(self) -> schemas.account.ProjectLimits:
        """Return how many services and forks the project may have, and how long its forks may live."""
        return self.call("GET", self.project_path("limits"), schemas.account.ProjectLimits)


def kept_fields(keeping: Keeping | None) -> dict[str, Any]:
    """Return the fields of a request for a new service."""
    fields = {} if keeping is None else asdict(keeping)
    return {name: value for name, value in fields.items() if value is not None}
