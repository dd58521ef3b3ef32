"""The stream that open pages listen to."""

from litestar import get
from litestar.params import FromQuery
from litestar.response import Stream

from ramet.console.context import ConsoleParts, SignedIn
from ramet.console.live.change_feed import changes


@get("/events")
async def events(parts: ConsoleParts, session: SignedIn, seen: FromQuery[str] = "") -> Stream:
    """Tell changes of the project's services until the page goes away; `seen` is the version that it shows."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Stream(changes(parts.pulses, session.project_id, seen), media_type="text/event-stream", headers=headers)
