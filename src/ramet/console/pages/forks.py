"""Making services: the form for a new one, the dialog for a fork with its dry run, and the page that follows both.

That page is the only one with the password. A form sent twice makes one service and shows the same page again.
"""

from collections.abc import Mapping

from litestar import Response, post

from ramet.console.context import AnyRequest, ConsoleContext, Context, CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.rendering import HEADERS, page
from ramet.console.views.forms import Form, environment_of, new_key, refused, sentence_of, sizes, split_size
from ramet.console.views.restore_window import restore_view
from ramet.control.fork_plans import plan_fork
from ramet.control.forks import fork_service
from ramet.control.requests import Accepted, CreateRequest, ForkRequest
from ramet.control.services import create_service, get_service
from ramet.endpoints import connection_uri
from ramet.errors import Error, Invalid
from ramet.model.fork import ForkStrategy
from ramet.model.service import Service, ServiceType, fork_name

_ASKED = ("strategy", "snapshot_id", "target_time", "name", "size", "environment")


@read("/new", sync_to_thread=True)
def create_page(request: AnyRequest, context: Context, session: SignedIn) -> Response[str]:
    """Show the form for a new service; its fields in the query choose what it begins with."""
    query = {name: str(value) for name, value in request.query_params.items()}
    values = {"service_type": ServiceType.POSTGRES, "size": "shared", **query, "key": new_key()}
    return _create_page(context, session, Form(values))


@post("/new", sync_to_thread=True, status_code=200)
def create(context: Context, session: SignedIn, fields: Fields) -> Response[str]:
    """Make a service."""
    try:
        accepted = create_service(context.plane, session.project_id, _create_request(fields), fields.get("key"))
    except Error as error:
        return _create_page(context, session, refused(fields, error), form_status(error))
    return _born(context, session, accepted)


@read("/services/{service_id:str}/fork", sync_to_thread=True)
def fork_page(request: AnyRequest, context: Context, session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Show the fork dialog; its fields in the query, and `span`, choose what it begins with."""
    query = {name: str(value) for name, value in request.query_params.items()}
    parent = get_service(context.plane, session.project_id, service_id)
    implied = "PITR" if "target_time" in query else "LAST_SNAPSHOT" if "snapshot_id" in query else "NOW"
    values = {"name": fork_name(parent.name), **query, "key": new_key()}
    if query.get("strategy") not in tuple(ForkStrategy):
        values["strategy"] = implied
    return _fork_page(context, session, parent, Form(values), span=_span(query.get("span", "")))


@read("/services/{service_id:str}/fork/preview", sync_to_thread=True)
def fork_preview(request: AnyRequest, context: Context, session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Tell what the fork would be that the dialog describes now."""
    values = {name: str(value).strip() for name, value in request.query_params.items()}
    try:
        preview = plan_fork(context.plane, session.project_id, service_id, _fork_request(values))
    except Error as error:
        return page("fork_preview.html", preview=None, problem=sentence_of(error))
    return page("fork_preview.html", preview=preview, problem="")


@post("/services/{service_id:str}/fork", sync_to_thread=True, status_code=200)
def fork(context: Context, session: SignedIn, service_id: ServiceId, fields: Fields) -> Response[str]:
    """Make a fork."""
    try:
        request = _fork_request(fields)
        accepted = fork_service(context.plane, session.project_id, service_id, request, fields.get("key"))
    except Error as error:
        parent = get_service(context.plane, session.project_id, service_id)
        return _fork_page(context, session, parent, refused(fields, error), status_code=form_status(error))
    return _born(context, session, accepted)


def _born(context: ConsoleContext, session: CurrentSession, accepted: Accepted) -> Response[str]:
    service = accepted.service
    if accepted.initial_password is None:
        return Response("", status_code=303, headers={**HEADERS, "Location": f"/console/services/{service.id}"})
    password = accepted.initial_password.reveal()
    tls = context.plane.backend.host.has_tls(service.pg_major)
    uri = connection_uri(service.host, service.port, password=password, tls=tls)
    return page("service_created.html", context, session, service=service, password=password, uri=uri)


def _create_page(context: ConsoleContext, session: CurrentSession, form: Form, status_code: int = 200) -> Response[str]:
    choices = sizes(context.plane)
    return page(
        "service_new.html", context, session, form=form, sizes=choices, types=list(ServiceType), status_code=status_code
    )


def _fork_page(
    context: ConsoleContext,
    session: CurrentSession,
    parent: Service,
    form: Form,
    *,
    span: int | None = None,
    status_code: int = 200,
) -> Response[str]:
    past = restore_view(context.plane, parent, span)
    return page(
        "fork.html",
        context,
        session,
        parent=parent,
        form=form,
        asked={name: form[name] for name in _ASKED},
        past=past,
        chosen=next((one for one in past.snapshots if one.id == form["snapshot_id"]), None),
        now=context.plane.clock(),
        sizes=sizes(context.plane, parent.size),
        status_code=status_code,
    )


def _create_request(values: Mapping[str, str]) -> CreateRequest:
    cpu, memory = split_size(values.get("size", ""))
    chosen = values.get("service_type", "")
    if chosen not in tuple(ServiceType):
        raise Invalid("INVALID_FIELD", f"The type must be one of {', '.join(ServiceType)}")
    return CreateRequest(
        name=values.get("name", ""),
        service_type=ServiceType(chosen),
        cpu_millis=cpu,
        memory_gbs=memory,
        environment=environment_of(values),
    )


def _fork_request(values: Mapping[str, str]) -> ForkRequest:
    chosen = values.get("strategy", "")
    if chosen not in tuple(ForkStrategy):
        raise Invalid("INVALID_FIELD", "Choose what the fork shall hold: now, the last snapshot, or a moment")
    strategy = ForkStrategy(chosen)
    cpu, memory = split_size(values.get("size", ""))
    return ForkRequest(
        strategy=strategy,
        name=values.get("name") or None,
        cpu_millis=cpu,
        memory_gbs=memory,
        target_time=(values.get("target_time") or None) if strategy is ForkStrategy.PITR else None,
        environment=environment_of(values),
        snapshot_id=(values.get("snapshot_id") or None) if strategy is ForkStrategy.LAST_SNAPSHOT else None,
    )


def _span(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) <= 9 and int(text) > 0 else None
