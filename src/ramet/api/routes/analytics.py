"""Analytics of clients: accepted, neither recorded nor sent anywhere."""

from litestar import Response, post
from litestar.params import JSONBody

from ramet.api.responses import answer
from ramet.api.schemas.analytics import AnalyticsResult, IdentifyUser, TrackEvent

_THANKS = AnalyticsResult("success")


@post(
    "/analytics/identify",
    operation_id="identifyUser",
    summary="Identify a user",
    tags=["Analytics"],
    status_code=200,
)
async def identify_user(data: JSONBody[IdentifyUser | None] = None) -> Response[AnalyticsResult]:
    """Accept and discard it."""
    return answer(_THANKS)


@post(
    "/analytics/track",
    operation_id="trackEvent",
    summary="Track an event",
    tags=["Analytics"],
    status_code=200,
)
async def track_event(data: JSONBody[TrackEvent]) -> Response[AnalyticsResult]:
    """Accept and discard it."""
    return answer(_THANKS)
