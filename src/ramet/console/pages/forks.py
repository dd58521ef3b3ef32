"""Forking a service: the form, its plan, and the report of a fork that is READY."""

from collections.abc import Mapping

from litestar import Response, post

from ramet.console.context import AnyRequest, CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.pages.services import created_page
from ramet.console.rendering import page
from ramet.console.views.fork_report import report_view
from ramet.console.views.forms import (
    Form,
    InvalidField,
    environment_of,
    new_key,
    refused,
    sentence_of,
    sizes,
    span_of,
    split_size,
    whole_number,
)
from ramet.console.views.life_spans import KEPT, kept_fields
from ramet.console.views.restore_window import restore_view
from ramet.control.fork_estimates import estimate_fork
from ramet.control.fork_reports import fork_report
from ramet.control.forks import plan_fork
from ramet.control.key_limits import as_parent_seen
from ramet.control.requests import Accepted, ForkRequest
from ramet.control.services import get_service
from ramet.endpoints import connection_uri
from ramet.errors import Error, Invalid
from ramet.model.fork import MOST_AT_ONCE, ForkStrategy
from ramet.model.names import fork_name
from ramet.model.service import Service
from ramet.warm_forks.claims import fork_services

_ASKED = ("strategy", "snapshot_id", "target_time", "name", "size", "environment", "count", *KEPT)


@read("/services/{service_id:str}/fork", operation="forkService", sync_to_thread=True)
def fork_page(request: AnyRequest, session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Show the form. The query may give initial values, and `span`, how many seconds the timeline shows."""
    query = {name: str(value) for name, value in request.query_params.items()}
    parent = _parent(session, service_id)
    implied = "PITR" if "target_time" in query else "LAST_SNAPSHOT" if "snapshot_id" in query else "NOW"
    values = {"name": fork_name(parent.name), **query, "key": new_key()}
    if query.get("strategy") not in tuple(ForkStrategy):
        values["strategy"] = implied
    return _fork_page(session, parent, Form(values), span=span_of(query.get("span", "")))


@read("/services/{service_id:str}/fork/plan", operation="forkService", sync_to_thread=True)
def fork_plan(request: AnyRequest, session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Describe the fork that the form would make now."""
    values = {name: str(value).strip() for name, value in request.query_params.items()}
    try:
        plan = plan_fork(session.plane, session.project_id, service_id, _fork_request(values))
    except Error as error:
        return page("fork_plan.html", plan=None, problem=sentence_of(error))
    return page("fork_plan.html", plan=plan, estimate=estimate_fork(session.plane, plan), problem="")


@post("/services/{service_id:str}/fork", operation="forkService", sync_to_thread=True, status_code=200)
def fork(session: SignedIn, service_id: ServiceId, fields: Fields) -> Response[str] | Response[None]:
    """Fork a service."""
    try:
        request, count = _fork_request(fields), _count(fields)
        accepted = fork_services(session.plane, session.project_id, service_id, request, count, fields.get("key"))
    except Error as error:
        parent = _parent(session, service_id)
        return _fork_page(session, parent, refused(fields, error), status_code=form_status(error))
    return created_page(session, accepted[0]) if count == 1 else _created(session, service_id, accepted)


def _parent(session: CurrentSession, service_id: str) -> Service:
    return get_service(as_parent_seen(session.plane, service_id), session.project_id, service_id)


def _created(session: CurrentSession, parent_id: str, accepted: list[Accepted]) -> Response[str]:
    """Return the only page that shows the passwords of several forks."""
    parent = _parent(session, parent_id)
    tls = session.plane.backend.host.has_tls(parent.pg_major)
    made = [(one.service, _uri(one, tls=tls)) for one in accepted]
    return page("forks_created.html", session, parent=parent, made=made)


def _uri(accepted: Accepted, *, tls: bool) -> str | None:
    service, password = accepted.service, accepted.initial_password
    return None if password is None else connection_uri(service.host, service.port, password=password.reveal(), tls=tls)


def _count(values: Mapping[str, str]) -> int:
    message = f"Enter a whole number from 1 to {MOST_AT_ONCE}"
    count = whole_number(values, "count", 3, message) if values.get("count") else 1
    if not 1 <= count <= MOST_AT_ONCE:
        raise InvalidField("count", message)
    return count


@read("/services/{service_id:str}/report", operation="getForkReport", sync_to_thread=True)
def report_page(session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Show the report of a fork."""
    report = fork_report(session.plane, session.project_id, service_id)
    return page("fork_report.html", session, service=report.service, report=report_view(report))


def _fork_page(
    session: CurrentSession, parent: Service, form: Form, *, span: int | None = None, status_code: int = 200
) -> Response[str]:
    past = restore_view(as_parent_seen(session.plane, parent.id), parent, span)
    return page(
        "fork.html",
        session,
        parent=parent,
        form=form,
        asked={name: form[name] for name in _ASKED},
        past=past,
        chosen=next((one for one in past.snapshots if one.id == form["snapshot_id"]), None),
        sizes=sizes(session.plane, parent.size),
        status_code=status_code,
    )


def _fork_request(values: Mapping[str, str]) -> ForkRequest:
    chosen = values.get("strategy", "")
    if chosen not in tuple(ForkStrategy):
        raise Invalid("INVALID_FIELD", "Choose a restore point: now, the last snapshot, or a point in time")
    strategy = ForkStrategy(chosen)
    cpu, memory = split_size(values.get("size", ""))
    return ForkRequest(
        strategy=strategy,
        name=values.get("name") or None,
        cpu_millis=cpu,
        memory_gbs=memory,
        target_time=(values.get("target_time") or None) if strategy is ForkStrategy.PITR else None,
        environment=environment_of(values),
        **kept_fields(values),
        snapshot_id=(values.get("snapshot_id") or None) if strategy is ForkStrategy.LAST_SNAPSHOT else None,
    )
