"""The stream that open pages listen to."""

from litestar import get
from litestar.response import Stream

from ramet.console.live import changes
from ramet.console.parts import ConsoleParts, SignedIn


@get("/events")
async def events(parts: ConsoleParts, session: SignedIn) -> Stream:
    """Tell changes of the project's services until the page goes away."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Stream(changes(parts.pulses, session.project_id), media_type="text/event-stream", headers=headers)
