"""Help, and the reference of the HTTP interface."""

from litestar import Response

from ramet.console.context import SignedIn, read
from ramet.console.rendering import page


@read("/help", operation="getAuthInfo", sync_to_thread=False)
def help_page(session: SignedIn) -> Response[str]:
    """Explain forks, statuses and environments, and list the operations of the HTTP interface."""
    return page("help.html", session, reference=session.context.reference())
