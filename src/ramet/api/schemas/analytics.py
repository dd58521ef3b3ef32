"""The schemas of the analytics that clients send."""

from msgspec import Struct

from ramet.api.schemas.shared import Body, Ignored, Properties


class AnalyticsResult(Struct, frozen=True):
    """The answer to what is not recorded anywhere."""

    status: str


class IdentifyUser(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client would tell about its user."""

    properties: Properties | None = None


class TrackEvent(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client would tell about its use."""

    event: Ignored
    properties: Properties | None = None
