"""The stream of server-sent events that open pages listen to."""

from litestar import get
from litestar.params import FromQuery
from litestar.response import ServerSentEvent

from ramet.console.context import SignedIn
from ramet.console.live.change_feed import changes


@get("/events")
async def events(session: SignedIn, seen: FromQuery[str] = "") -> ServerSentEvent:
    """Stream the changes of the project's services until the page closes; `seen` is the version that it shows."""
    return ServerSentEvent(
        changes(session.context.feed, session.project_id, seen), headers={"Cache-Control": "no-store"}
    )
