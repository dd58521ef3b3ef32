"""The page that shows which services came from which."""

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import Context, SignedIn, read
from ramet.console.pages.services import matches
from ramet.console.rendering import page
from ramet.console.views.lineage_tree import PAGE_SIZE, ROW_HEIGHT, page_of, tree, with_ancestors
from ramet.control.services import list_services


@read("/lineage", sync_to_thread=True)
def lineage_page(
    context: Context, session: SignedIn, q: FromQuery[str] = "", number: FromQuery[int] = 1
) -> Response[str]:
    """Show the lineage of a project, or of the services that a search finds, so many rows a page."""
    services, query = list_services(context.plane, session.project_id), q[:200]
    found = matches(services, query) if query.strip() else services
    nodes = tree(with_ancestors(services, found), context.plane.clock())
    pages = max(1, -(-len(nodes) // PAGE_SIZE))
    number = min(max(1, number), pages)
    return page(
        "lineage.html",
        context,
        session,
        nodes=page_of(nodes, number),
        found={service.id for service in found} if query.strip() else set(),
        query=query,
        row_height=ROW_HEIGHT,
        total=len(services),
        number=number,
        pages=pages,
    )
