"""The page that shows which service was forked from which."""

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import SignedIn, read
from ramet.console.pages.services import search
from ramet.console.rendering import page
from ramet.console.views.lineage_tree import ROW_HEIGHT, renumbered, tree, with_ancestors
from ramet.console.views.pagination import paginate
from ramet.control.services import list_services

PAGE_SIZE = 100


@read("/lineage", operation="getServices", sync_to_thread=True)
def lineage_page(session: SignedIn, q: FromQuery[str] = "", number: FromQuery[int] = 1) -> Response[str]:
    """Show the lineage of a project, or of the services that a search finds."""
    services, query = list_services(session.plane, session.project_id), q[:200]
    found = search(services, query) if query.strip() else services
    nodes = paginate(tree(with_ancestors(services, found), session.plane.clock()), number, PAGE_SIZE)
    return page(
        "lineage.html",
        session,
        nodes=renumbered(nodes.rows),
        found={service.id for service in found} if query.strip() else set(),
        query=query,
        row_height=ROW_HEIGHT,
        total=len(services),
        number=nodes.number,
        pages=nodes.pages,
    )
