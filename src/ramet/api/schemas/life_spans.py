"""The schemas of labels, protection and life spans: what a new service may be given, and changes to them."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from ramet.api.schemas.shared import Body
from ramet.model import sleep
from ramet.model.fork import MOST_AT_ONCE
from ramet.model.labels import LONGEST_VALUE, MOST_LABELS
from ramet.model.life_span import LEAST_SECONDS, MOST_SECONDS

_RANGE = f"an integer from {LEAST_SECONDS} to {MOST_SECONDS}"
_TEXTS = {"type": "object", "maxProperties": MOST_LABELS}
Ttl = Annotated[int, Meta(description=f"The service expires after so many seconds, {_RANGE}.")]
ExpiresAt = Annotated[
    str,
    Meta(
        description="When the service expires: RFC 3339 with an offset, at most ten years ahead.",
        extra_json_schema={"format": "date-time"},
    ),
]
IdleTtl = Annotated[
    int, Meta(description=f"The service expires after so many seconds without a client's session, {_RANGE}.")
]
SleepAfter = Annotated[
    int,
    Meta(
        description="The service falls asleep after so many seconds without a client's session, and the next client"
        f" wakes it: an integer from {sleep.LEAST_SECONDS} to {sleep.MOST_SECONDS}."
    ),
]
Protected = Annotated[
    bool, Meta(description="true or false: refuse to delete, reset or restore the service, and do not let it expire.")
]
Labels = Annotated[
    dict[str, str],
    Meta(
        description="An object of up to 32 labels: keys of 1 to 63 characters a-z, 0-9, '.', '_', '/' and '-', and"
        f" values of up to {LONGEST_VALUE} printable characters.",
        extra_json_schema=_TEXTS,
    ),
]
LabelChanges = Annotated[
    dict[str, str | None],
    Meta(description="An object of labels to set; a label whose value is null is removed.", extra_json_schema=_TEXTS),
]
Count = Annotated[
    int,
    Meta(
        description=f"An integer, how many forks from 1 to {MOST_AT_ONCE}.",
        extra_json_schema={"minimum": 1, "maximum": MOST_AT_ONCE},
    ),
]


class KeptBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a request for a new service says of how long it is kept, and what it is sorted by."""

    ttl_seconds: Ttl | None = None
    expires_at: ExpiresAt | None = None
    idle_ttl_seconds: IdleTtl | None = None
    sleep_after_seconds: SleepAfter | None = None
    protected: Protected | None = None
    labels: Labels | None = None


class LifeSpanInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Absent fields are kept, null removes one. Without any the life span that was granted begins again."""

    ttl_seconds: Ttl | UnsetType | None = UNSET
    expires_at: ExpiresAt | UnsetType | None = UNSET
    idle_ttl_seconds: IdleTtl | UnsetType | None = UNSET


class SetSleepInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """After how long without a client a service falls asleep; null: never."""

    sleep_after_seconds: SleepAfter | None


class SetProtectionInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a service is protected."""

    protected: Protected


class LabelsInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to the labels of a service; others stay."""

    labels: LabelChanges
