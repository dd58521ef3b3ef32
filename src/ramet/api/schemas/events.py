"""The schemas of events and webhooks."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from ramet.api.schemas.shared import Body, Identifier, OptionalTimestamp, Timestamp
from ramet.model.events import (
    LONGEST_DESCRIPTION,
    LONGEST_OVERLAP_SECONDS,
    OVERLAP_SECONDS,
    DeliveryStatus,
    EventType,
)

Url = Annotated[str, Meta(description="An https:// URL; http:// only where the operator permits the address.")]
Types = Annotated[list[str], Meta(description="The types of events to deliver, such as service.ready; empty: all.")]
Description = Annotated[str, Meta(description=f"A string of up to {LONGEST_DESCRIPTION} printable characters.")]


class Event(Struct, frozen=True, omit_defaults=True):
    """Something that happened."""

    id: Annotated[int, Meta(description="Its number; send it as Last-Event-ID to continue the stream after it.")]
    type: EventType
    at: Timestamp
    data: Annotated[dict[str, Any], Meta(description="What a delivery has in its field data.")]
    service_id: Annotated[str | None, Meta(description="The service that it is about.")] = None


class Events(Struct, frozen=True, omit_defaults=True):
    """A page of events, newest first; the last page has no last_cursor."""

    events: list[Event]
    last_cursor: str | None = None


class WebhookCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new webhook."""

    url: Url
    types: Types | None = None
    description: Description | None = None


class WebhookUpdate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a webhook."""

    url: Url | UnsetType | None = UNSET
    types: Types | UnsetType | None = UNSET
    description: Description | UnsetType | None = UNSET
    enabled: Annotated[bool, Meta(description="true or false; true enables a disabled one again.")] | None = None


class WebhookRotation(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long deliveries are signed with the present secret, too."""

    overlap_seconds: (
        Annotated[
            int,
            Meta(description=f"An integer from 0 to {LONGEST_OVERLAP_SECONDS}; {OVERLAP_SECONDS} by default."),
        ]
        | None
    ) = None


class Redelivery(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to deliver again."""

    delivery_id: Annotated[str, Meta(description="One delivery; without it all that failed.")] | None = None


class Redelivered(Struct, frozen=True):
    """How many deliveries are made again."""

    count: int


class Webhook(Struct, frozen=True, omit_defaults=True):
    """Where events are delivered. Only the responses to create and rotateSecret contain the secret."""

    id: Identifier
    url: str
    types: list[EventType]
    enabled: bool
    created: Timestamp
    description: str = ""
    disabled_reason: Annotated[str | None, Meta(description="Why it is disabled.")] = None
    failing_since: Annotated[OptionalTimestamp, Meta(description="Since when no delivery has succeeded.")] = None
    previous_secret_until: Annotated[
        OptionalTimestamp, Meta(description="Until when deliveries are signed with the previous secret, too.")
    ] = None
    secret: (
        Annotated[
            str,
            Meta(
                description="The secret that verifies signatures: whsec_ and base64.",
                extra_json_schema={"format": "password"},
            ),
        ]
        | None
    ) = None


class Delivery(Struct, frozen=True, omit_defaults=True):
    """An event on its way to a webhook."""

    id: Annotated[str, Meta(description="The webhook-id of its requests.")]
    event_id: int
    type: EventType
    status: DeliveryStatus
    attempts: int
    created: Timestamp
    next_attempt: Annotated[OptionalTimestamp, Meta(description="When it is tried next.")] = None
    finished: Annotated[OptionalTimestamp, Meta(description="When it was delivered, or given up.")] = None
    response_status: Annotated[int | None, Meta(description="The status of the last response.")] = None
    error: Annotated[str | None, Meta(description="Why the last attempt failed.")] = None


class Deliveries(Struct, frozen=True, omit_defaults=True):
    """A page of deliveries, newest first; the last page has no last_cursor."""

    deliveries: list[Delivery]
    last_cursor: str | None = None
