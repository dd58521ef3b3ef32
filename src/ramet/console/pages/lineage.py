"""The page that shows which service was forked from which."""

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import SignedIn, read
from ramet.console.pages.services import search
from ramet.console.rendering import page
from ramet.console.views.lineage_tree import (
    ROW_HEIGHT,
    SPANS,
    renumbered,
    scale_of,
    spans_of,
    tree,
    with_ancestors,
)
from ramet.console.views.pagination import paginate
from ramet.console.views.time_axis import time_axis
from ramet.control.services import list_services

PAGE_SIZE = 100


@read("/lineage", operation="getServices", sync_to_thread=True)
def lineage_page(
    session: SignedIn, q: FromQuery[str] = "", number: FromQuery[int] = 1, span: FromQuery[str] = ""
) -> Response[str]:
    """Show the lineage of a project, or of the services that a search finds, over all time or the last `span`."""
    services, query, now = list_services(session.plane, session.project_id), q[:200], session.plane.clock()
    found = search(services, query) if query.strip() else services
    shown = with_ancestors(services, found)
    seconds = next((one for one, _ in SPANS if str(one) == span), None)
    scale = scale_of(shown, now, seconds)
    nodes = paginate(tree(shown, scale), number, PAGE_SIZE)
    return page(
        "lineage.html",
        session,
        nodes=renumbered(nodes.rows),
        found={service.id for service in found} if query.strip() else set(),
        query=query,
        span=seconds or "",
        spans=spans_of(scale_of(shown, now, None), seconds),
        axis=time_axis(scale),
        row_height=ROW_HEIGHT,
        total=len(services),
        number=nodes.number,
        pages=nodes.pages,
    )
