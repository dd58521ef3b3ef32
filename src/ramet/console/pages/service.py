"""The page of one service: how to connect, what it is made of, its past, and what is being done to it."""

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import AnyRequest, ConsoleContext, Context, CurrentSession, ServiceId, SignedIn, read
from ramet.console.pages.fork_report import ReportView, report_view
from ramet.console.pages.service_changes import CHANGES
from ramet.console.rendering import HEADERS, page
from ramet.console.views.operation_steps import grouped
from ramet.console.views.restore_settings import settings_text
from ramet.console.views.restore_window import restore_view
from ramet.control import services
from ramet.control.fork_reports import fork_report
from ramet.control.operations import list_operations
from ramet.errors import NotFound
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service

_OPERATIONS = 60
_GROUPS = 12
_SNAPSHOTS = 12


@read("/services/{service_id:str}", sync_to_thread=True)
def service_page(
    request: AnyRequest, context: Context, session: SignedIn, service_id: ServiceId, done: FromQuery[str] = ""
) -> Response[str] | Response[None]:
    """Show a service; one that failed or was deleted leaves its history and what to do next.

    Who waits for one that fails is led here: what the page of a newborn shows is no longer true. The id of a set of
    read replicas leads to its page. `done` names a change that was just accepted.
    """
    try:
        service = services.get_service(context.plane, session.project_id, service_id)
    except NotFound:
        return _led_here(request) if _is_awaited(request) else _gone(context, session, service_id)
    if service.failed_at is not None and _is_awaited(request):
        return _led_here(request)
    if service.origin is not None and service.origin.is_standby:
        where = f"/console/services/{service.origin.service_id}/replicas/{service.id}"
        return Response(None, status_code=303, headers={**HEADERS, "Location": where})
    past = restore_view(context.plane, service)
    operations = list_operations(context.plane, session.project_id, service.id, _OPERATIONS)
    return page(
        "service.html",
        context,
        session,
        service=service,
        tls=context.plane.backend.host.has_tls(service.pg_major),
        done=CHANGES[done].done if done in CHANGES else "",
        space=context.disk_usage.of([service]).get(service.id),
        forks=_forks(context, service),
        past=past,
        shown_snapshots=past.snapshots[:_SNAPSHOTS],
        operations=operations.operations,
        groups=grouped(operations.operations, _GROUPS),
        settings_text=settings_text(past.settings),
        story=_story(context, service),
        birth=next(
            (one for one in operations.operations if one.procedure in (ProcedureName.CREATE, ProcedureName.FORK)), None
        ),
    )


def _is_awaited(request: AnyRequest) -> bool:
    """Tell whether the page of a newborn asks how far it is."""
    return request.headers.get("hx-target") == "progress"


def _led_here(request: AnyRequest) -> Response[None]:
    return Response(None, status_code=200, headers={**HEADERS, "HX-Redirect": request.url.path})


def _gone(context: ConsoleContext, session: CurrentSession, service_id: str) -> Response[str]:
    """Show what became of a service. Raises NotFound when there never was one."""
    past = list_operations(context.plane, session.project_id, service_id, _OPERATIONS).operations
    return page(
        "service_deleted.html",
        context,
        session,
        service=services.get_service_including_deleted(context.plane, session.project_id, service_id),
        operations=past,
        groups=grouped(past, _GROUPS),
        status_code=404,
    )


def _story(context: ConsoleContext, service: Service) -> ReportView | None:
    if service.report is None:
        return None
    return report_view(fork_report(context.plane, service.project_id, service.id))


def _forks(context: ConsoleContext, service: Service) -> list[Service]:
    listed = services.list_services(context.plane, service.project_id)
    return [other for other in listed if other.origin is not None and other.origin.service_id == service.id]
