"""The log of a service, with a search."""

from litestar import Response

from ramet.console.context import AnyRequest, ServiceId, SignedIn, read
from ramet.console.rendering import page
from ramet.control.logs import read_logs
from ramet.control.services import get_service
from ramet.errors import Error, NotFound
from ramet.model.logs import LogEntry, LogQuery

_ENTRIES = 200
_FEW_ENTRIES = 50
_SEVERE = ("ERROR", "FATAL", "PANIC", "WARNING")


@read("/services/{service_id:str}/logs", operation="getServiceLogs", sync_to_thread=True)
def logs_page(request: AnyRequest, session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Show the newest entries that contain every word of `q`; with `severe` only warnings and errors.

    `few` limits them to what fits on the page of the service.
    """
    service = get_service(session.plane, session.project_id, service_id)
    query = str(request.query_params.get("q", ""))[:200]
    severe = "severe" in request.query_params
    limit = _FEW_ENTRIES if "few" in request.query_params else _ENTRIES
    wanted = LogQuery(search=query.split(), severities=_SEVERE if severe else (), limit=limit)
    entries: list[LogEntry] = []
    problem = ""
    try:
        entries = read_logs(session.plane, session.project_id, service.id, wanted).entries
    except NotFound:
        raise
    except (Error, OSError) as error:
        problem = f"The log cannot be read: {error}"
    return page(
        "logs.html",
        session,
        service=service,
        entries=entries,
        query=query,
        severe=severe,
        severities=_SEVERE,
        problem=problem,
    )
