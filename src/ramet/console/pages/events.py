"""The stream of server-sent events that open pages listen to."""

from litestar import get
from litestar.params import FromQuery
from litestar.response import ServerSentEvent

from ramet.console.context import SignedIn
from ramet.console.live.change_feed import changes
from ramet.control.slots import stream_of


@get("/events", operation="getServices")
async def events(session: SignedIn, seen: FromQuery[str] = "") -> ServerSentEvent:
    """Stream the changes of the project's services until the page closes; `seen` is the version that it shows."""
    context = session.context

    def is_open() -> bool:
        return context.sessions.is_open(session, context.plane.clock())

    messages = changes(context.feed, session.key, seen, is_open)
    messages = stream_of(context.plane.held, session.project_id, messages)
    return ServerSentEvent(messages, headers={"Cache-Control": "no-store"})
