"""The page that shows which services came from which."""

from litestar import Response, get
from litestar.params import FromQuery

from ramet.console.family import PAGE_SIZE, ROW_HEIGHT, part_of, tree
from ramet.console.pages import page
from ramet.console.parts import ConsoleParts, SignedIn


@get("/lineage", sync_to_thread=True)
def lineage_page(parts: ConsoleParts, session: SignedIn, number: FromQuery[int] = 1) -> Response[str]:
    """Show the lineage of a project, so many rows a page."""
    nodes = tree(parts.control.list_services(session.project_id), parts.control.clock())
    pages = max(1, -(-len(nodes) // PAGE_SIZE))
    number = min(max(1, number), pages)
    shown = part_of(nodes, number)
    return page(
        "lineage.html", parts, session, nodes=shown, row_height=ROW_HEIGHT, total=len(nodes), number=number, pages=pages
    )
