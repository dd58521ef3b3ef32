"""The operations of a service, also of a deleted one."""

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import ServiceId, SignedIn, read
from ramet.console.rendering import page
from ramet.console.views.operation_steps import grouped
from ramet.control.operations import list_operations
from ramet.control.services import get_service_including_deleted


@read("/services/{service_id:str}/operations", operation="getServiceOperations", sync_to_thread=True)
def operations_page(
    session: SignedIn, service_id: ServiceId, cursor: FromQuery[str] = "", all: FromQuery[str] = ""
) -> Response[str]:
    """Show the newest operations, or those before `cursor`; `all=true` includes the ones that Ramet starts itself."""
    plane, everything = session.plane, all == "true"
    found = list_operations(plane, session.project_id, service_id, cursor=cursor or None, everything=everything)
    return page(
        "operations.html",
        session,
        service=get_service_including_deleted(plane, session.project_id, service_id),
        groups=grouped(found.items),
        is_first=not cursor,
        older=found.cursor,
        everything=everything,
    )
