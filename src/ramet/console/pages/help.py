"""Help and the reference of the interface, served from here: nothing is asked of another host."""

from litestar import Response

from ramet.console.context import ConsoleParts, SignedIn, read
from ramet.console.views.rendering import page


@read("/help", sync_to_thread=False)
def help_page(parts: ConsoleParts, session: SignedIn) -> Response[str]:
    """Explain the words and the ways, and list the operations of the interface."""
    return page("help.html", parts, session, reference=parts.reference())
