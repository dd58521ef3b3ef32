"""Restores in place: the form, all of them, and the report of one with its undo."""

from collections.abc import Mapping

from litestar import Response, post
from litestar.params import FromPath

from ramet.console.context import AnyRequest, CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.rendering import page, redirect
from ramet.console.views.forms import Form, InvalidField, confirm, new_key, refused, span_of
from ramet.console.views.restore_window import restore_view
from ramet.control.operations import list_operations
from ramet.control.restore import list_snapshots
from ramet.control.services import get_service, list_services
from ramet.errors import Error
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.service import Service
from ramet.restores.verbs import RestoreRequest, get_restore, list_restores, refusal_of, restore_service

_ASKED = ("strategy", "snapshot_id", "target_time", "from_service_id")
_NEEDED = {
    ForkStrategy.PITR: ("target_time", "Choose a time on the timeline, or enter one"),
    ForkStrategy.LAST_SNAPSHOT: ("snapshot_id", "Choose a snapshot"),
    ForkStrategy.NOW: ("from_service_id", "Choose a service"),
}


@read("/services/{service_id:str}/restores", operation="getRestores", sync_to_thread=True)
def restores_page(request: AnyRequest, session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Show the form, and the restores until now. The query may give initial values, and `span` as on the fork page."""
    query = {name: str(value) for name, value in request.query_params.items()}
    service = get_service(session.plane, session.project_id, service_id)
    implied = next((strategy for strategy, (field, _) in _NEEDED.items() if query.get(field)), ForkStrategy.PITR)
    chosen = query["strategy"] if query.get("strategy") in tuple(ForkStrategy) else implied
    return _restores_page(session, service, Form({**query, "strategy": chosen, "key": new_key()}))


@post("/services/{service_id:str}/restores", operation="restoreService", sync_to_thread=True, status_code=200)
def restore(session: SignedIn, service_id: ServiceId, fields: Fields) -> Response[str] | Response[None]:
    """Restore a service in place. The name of a PROD service must be typed."""
    service = get_service(session.plane, session.project_id, service_id)
    try:
        if service.environment is Environment.PROD:
            confirm(service.name, fields)
        begun = restore_service(session.plane, session.project_id, service.id, _request(fields), fields.get("key"))
    except Error as error:
        return _restores_page(session, service, refused(fields, error), status_code=form_status(error))
    return redirect(f"/console/services/{service.id}/restores/{begun.id}")


@read("/services/{service_id:str}/restores/{restore_id:str}", operation="getRestore", sync_to_thread=True)
def restore_page(session: SignedIn, service_id: ServiceId, restore_id: FromPath[str]) -> Response[str]:
    """Show how far a restore is, what it did, and how to undo it."""
    service = get_service(session.plane, session.project_id, service_id)
    found = get_restore(session.plane, session.project_id, service.id, restore_id)
    listed = list_operations(session.plane, session.project_id, service.id, 500).items
    return page(
        "restore.html",
        session,
        service=service,
        restore=found,
        operation=next((one for one in listed if one.id == found.id), None),
        names=_names(session, service),
    )


def _restores_page(session: CurrentSession, service: Service, form: Form, *, status_code: int = 200) -> Response[str]:
    past = restore_view(session.plane, service, span_of(form["span"]))
    return page(
        "restores.html",
        session,
        service=service,
        form=form,
        asked={name: form[name] for name in _ASKED},
        past=past,
        sources=_sources(session, service),
        refusal=refusal_of(service),
        restores=list_restores(session.plane, session.project_id, service.id),
        names=_names(session, service),
        status_code=status_code,
    )


def _sources(session: CurrentSession, service: Service) -> list[Service]:
    """Return the services whose data a service can get, its own states before first."""
    listed = list_services(session.plane, session.project_id)
    kind = (service.service_type, service.pg_major)
    can_be = [one for one in listed if one.ready_at and one.upstream is None and one.id != service.id]
    before = {one.previous_service_id for one in list_restores(session.plane, session.project_id, service.id)}
    same = [one for one in can_be if (one.service_type, one.pg_major) == kind]
    return sorted(same, key=lambda one: (one.id not in before, one.name))


def _names(session: CurrentSession, service: Service) -> Mapping[str, str]:
    """Return the names of the services of a project, and of the manual snapshots of one, by their ids."""
    taken = list_snapshots(session.plane, session.project_id, service.id)
    listed = list_services(session.plane, session.project_id)
    return {one.id: one.name for one in taken if one.name} | {one.id: one.name for one in listed}


def _request(values: Mapping[str, str]) -> RestoreRequest:
    chosen = values.get("strategy", "")
    if chosen not in tuple(ForkStrategy):
        raise InvalidField("strategy", "Choose what to restore")
    name, missing = _NEEDED[ForkStrategy(chosen)]
    if not values.get(name):
        raise InvalidField(name, missing)
    given = {"target_time": "target_time", "snapshot_id": "snapshot", "from_service_id": "from_service_id"}
    wanted = {given[name]: values[name]}
    return RestoreRequest(**wanted, keeps=values.get("discard") != "yes", confirm=values.get("confirmation"))
