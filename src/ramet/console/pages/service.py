"""The page of one service: how to connect, its restore window, replicas, metrics, log and operations."""

from collections.abc import Sequence
from contextlib import suppress

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import AnyRequest, CurrentSession, ServiceId, SignedIn, read
from ramet.console.pages.service_changes import CHANGES
from ramet.console.rendering import htmx_redirect, page, redirect
from ramet.console.views.fork_report import report_view
from ramet.console.views.operation_steps import grouped
from ramet.console.views.restore_settings import settings_text
from ramet.console.views.restore_window import restore_view
from ramet.control import services
from ramet.control.archive import get_archive
from ramet.control.fork_reports import fork_report, has_fork_report
from ramet.control.high_availability import has_high_availability
from ramet.control.metrics import own_space
from ramet.control.operations import list_operations
from ramet.control.plane import Plane
from ramet.control.replication import ReplicationView, get_replication
from ramet.errors import NotFound, Unavailable
from ramet.model.high_availability import standbys_of
from ramet.model.operation_record import OperationRecord
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.restore_window import is_sparing
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.model.wal_level import WalLevel, wal_level_of
from ramet.upgrades.verbs import list_upgrades

_OPERATIONS = 60
_CREATIONS = [name for name, spec in SPECS.items() if spec.creates]
_GROUPS = 12
_SNAPSHOTS = 12


@read("/services/{service_id:str}", operation="getService", sync_to_thread=True)
def service_page(
    request: AnyRequest, session: SignedIn, service_id: ServiceId, done: FromQuery[str] = ""
) -> Response[str] | Response[None]:
    """Show a service; one that failed or was deleted shows its operations and what to do next.

    The page that follows a creation polls this one, and is redirected here when the creation fails. The id of a read
    replica set leads to its page. `done` names a change that was just accepted.
    """
    plane, is_awaited = session.plane, request.headers.get("hx-target") == "progress"
    try:
        service = services.get_service(plane, session.project_id, service_id)
    except NotFound:
        return htmx_redirect(request.url.path) if is_awaited else _deleted(session, service_id)
    if service.failed_at is not None and is_awaited:
        return htmx_redirect(request.url.path)
    if service.origin is not None and service.origin.is_standby:
        return redirect(f"/console/services/{service.origin.service_id}/replicas/{service.id}")
    past = restore_view(plane, service)
    operations = list_operations(plane, session.project_id, service.id, _OPERATIONS).items
    listed = services.list_services(plane, service.project_id)
    sparing = is_sparing(plane.backend.host.volume_type(), service.settings)
    return page(
        "service.html",
        session,
        service=service,
        tls=plane.backend.host.has_tls(service.pg_major),
        archive=get_archive(plane, session.project_id, service.id),
        replication=_replication(plane, service),
        has_high_availability=has_high_availability(plane),
        standbys=standbys_of(service.settings),
        done=CHANGES[done].done if done in CHANGES else "",
        disk_usage=own_space(plane, session.project_id).get(service.id),
        forks=[one for one in listed if one.origin is not None and one.origin.service_id == service.id],
        past=past,
        shown_snapshots=past.snapshots[:_SNAPSHOTS],
        operations=operations,
        groups=grouped(operations, _GROUPS),
        settings_text=settings_text(past.settings, is_sparing=sparing),
        report=report_view(fork_report(plane, service.project_id, service.id)) if has_fork_report(service) else None,
        is_imported=_is_imported(service, operations),
        upgrade=next(iter(list_upgrades(plane, session.project_id, service.id)), None),
        creation=next((one for one in operations if one.procedure in _CREATIONS), None),
    )


def _is_imported(service: Service, operations: Sequence[OperationRecord]) -> bool:
    """Tell whether a service has the report of an import; the operation itself goes with the history."""
    return "findings" in (service.report or {}) or any(one.procedure == ProcedureName.IMPORT for one in operations)


def _replication(plane: Plane, service: Service) -> ReplicationView:
    """Return the wal_level of a service, and the slots of one that can have any and can be asked."""
    level = wal_level_of(service.settings)
    if level is WalLevel.LOGICAL and status_of(service) is Status.READY:
        with suppress(Unavailable, NotFound):
            return get_replication(plane, service.project_id, service.id)
    return ReplicationView(level, None, ())


def _deleted(session: CurrentSession, service_id: str) -> Response[str]:
    """Show the operations of a service that is gone. Raises NotFound when there never was one."""
    operations = list_operations(session.plane, session.project_id, service_id, _OPERATIONS).items
    return page(
        "service_deleted.html",
        session,
        service=services.get_service_including_deleted(session.plane, session.project_id, service_id),
        operations=operations,
        groups=grouped(operations, _GROUPS),
        creations=_CREATIONS,
        status_code=404,
    )
