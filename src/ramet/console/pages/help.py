"""Help and the reference of the interface, served from here: nothing is asked of another host."""

from litestar import Response

from ramet.console.context import Context, SignedIn, read
from ramet.console.rendering import page


@read("/help", sync_to_thread=False)
def help_page(context: Context, session: SignedIn) -> Response[str]:
    """Explain the words and the ways, and list the operations of the interface."""
    return page("help.html", context, session, reference=context.reference())
