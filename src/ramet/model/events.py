"""Events: what happened to the services of a project. Webhooks: where they are delivered."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from ramet.model.passwords import Secret

LONGEST_DESCRIPTION = 200
LONGEST_OVERLAP_SECONDS = 7 * 86_400
OVERLAP_SECONDS = 86_400


class EventType(StrEnum):
    """What can happen."""

    SERVICE_READY = "service.ready"
    SERVICE_FAILED = "service.failed"
    SERVICE_EXPIRING = "service.expiring"
    SERVICE_DELETED = "service.deleted"
    SERVICE_DOWN = "service.down"
    SERVICE_UP = "service.up"
    OPERATION_FAILED = "operation.failed"
    DRILL_FAILED = "drill.failed"
    ARCHIVE_BEHIND = "archive.behind"
    ARCHIVE_CAUGHT_UP = "archive.caught_up"
    STORAGE_WARNING = "storage.warning"
    STORAGE_RELIEVED = "storage.relieved"
    QUOTA_REACHED = "quota.reached"
    WEBHOOK_TEST = "webhook.test"


ENDED_BY = {
    EventType.SERVICE_DOWN: EventType.SERVICE_UP,
    EventType.STORAGE_WARNING: EventType.STORAGE_RELIEVED,
    EventType.ARCHIVE_BEHIND: EventType.ARCHIVE_CAUGHT_UP,
}
"""The events that say that something begins to be wrong with a service, and those that say that it is over."""


class DeliveryStatus(StrEnum):
    """How far a delivery is."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened. `service_id` is None for what concerns the whole project."""

    sequence: int
    at: datetime
    project_id: str
    type: EventType
    service_id: str | None
    data: Mapping[str, object]


@dataclass(frozen=True)
class EventFilter:
    """Which events of a project are wanted; None: whatever they have there."""

    project_id: str
    type: EventType | None = None
    service_id: str | None = None


class Webhook(Struct, frozen=True, kw_only=True):
    """Where events are delivered. `types` are the wanted ones; empty: all.

    `secret` signs deliveries, until `previous_until` together with `previous_secret`. `failing_since` is the time of
    the first failure after the last success.
    """

    id: str
    project_id: str
    url: str
    description: str
    types: tuple[EventType, ...]
    enabled: bool
    disabled_reason: str | None
    secret: Secret
    previous_secret: Secret | None
    previous_until: datetime | None
    failing_since: datetime | None
    created_at: datetime


class Delivery(Struct, frozen=True, kw_only=True):
    """An event on its way to a webhook. `next_at` is when it is tried (again); None when it is over."""

    id: str
    webhook_id: str
    event_sequence: int
    event_type: EventType
    status: DeliveryStatus
    attempts: int
    next_at: datetime | None
    response_status: int | None
    error: str | None
    created_at: datetime
    finished_at: datetime | None
