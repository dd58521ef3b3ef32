"""The schemas of the analytics that clients send."""

from msgspec import Struct

from ramet.api.schemas.shared import Body, Ignored, Properties


class AnalyticsResult(Struct, frozen=True):
    """The response to analytics, which are not recorded."""

    status: str


class IdentifyUser(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client reports about its user; ignored."""

    properties: Properties | None = None


class TrackEvent(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client reports about its use; ignored."""

    event: Ignored
    properties: Properties | None = None
