"""The list of services with its search, the form for a new service, and the page that follows its creation."""

from collections.abc import Mapping
from typing import Any

from litestar import Response, post
from litestar.params import FromQuery

from ramet.console.context import AnyRequest, CurrentSession, Fields, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.rendering import page, redirect
from ramet.console.views.forms import (
    Form,
    environment_of,
    new_key,
    refused,
    sizes,
    split_size,
    wal_level_of_form,
    wanted_major,
)
from ramet.console.views.life_spans import kept_fields
from ramet.console.views.pagination import paginate
from ramet.control.key_limits import list_parents
from ramet.control.metrics import own_space
from ramet.control.requests import Accepted, CreateRequest
from ramet.control.services import create_service, list_services
from ramet.endpoints import connection_uri
from ramet.errors import Error, Invalid
from ramet.model.service import Service, status_of
from ramet.model.service_type import ServiceType

PAGE_SIZE = 50


def search(services: list[Service], query: str) -> list[Service]:
    """Return the services that contain every word of the query: in name, id, status, type, port, labels or parent."""
    words = query.casefold().split()
    return [service for service in services if all(word in _text(service) for word in words)]


def _text(service: Service) -> str:
    parent = "" if service.origin is None else f"{service.origin.name} {service.origin.service_id}"
    shown = (service.name, service.id, status_of(service), service.environment, service.service_type, service.port)
    labels = " ".join(f"{key}={value}" for key, value in service.labels.items())
    return f"{' '.join(map(str, shown))} {parent} {labels}".casefold()


@read("/", operation="getServices", sync_to_thread=True)
def list_page(session: SignedIn, q: FromQuery[str] = "", number: FromQuery[int] = 1) -> Response[str]:
    """Show the services that a search finds, newest first."""
    services, query = list_services(session.plane, session.project_id), q[:200]
    found = paginate(search(services, query)[::-1], number, PAGE_SIZE)
    usage = own_space(session.plane, session.project_id)
    return page(
        "services.html",
        session,
        found=found,
        query=query,
        total=len(services),
        disk_usage=usage,
        parents=list_parents(session.plane),
    )


@read("/new", operation="createService", sync_to_thread=True)
def create_page(request: AnyRequest, session: SignedIn) -> Response[str]:
    """Show the form for a new service; the query may give initial values of its fields."""
    query = {name: str(value) for name, value in request.query_params.items()}
    values = {"service_type": ServiceType.POSTGRES, "size": "shared", **query, "key": new_key()}
    return _create_page(session, Form(values))


@post("/new", operation="createService", sync_to_thread=True, status_code=200)
def create(session: SignedIn, fields: Fields) -> Response[str] | Response[None]:
    """Create a service."""
    try:
        accepted = create_service(session.plane, session.project_id, _create_request(fields), fields.get("key"))
    except Error as error:
        return _create_page(session, refused(fields, error), form_status(error))
    return created_page(session, accepted)


def created_page(session: CurrentSession, accepted: Accepted) -> Response[str] | Response[None]:
    """Return the only page that shows the password; the same form sent again leads to the same page."""
    service = accepted.service
    if accepted.initial_password is None:
        return redirect(f"/console/services/{service.id}")
    password = accepted.initial_password.reveal()
    tls = session.plane.backend.host.has_tls(service.pg_major)
    uri = connection_uri(service.host, service.port, password=password, tls=tls)
    return page("service_created.html", session, service=service, password=password, uri=uri)


def _create_page(session: CurrentSession, form: Form, status_code: int = 200) -> Response[str]:
    majors = session.plane.backend.upgrades.majors()
    values = {"form": form, "sizes": sizes(session.plane), "types": list(ServiceType), "majors": majors}
    return page("service_new.html", session, status_code=status_code, **values)


def _create_request(values: Mapping[str, str]) -> CreateRequest:
    chosen = values.get("service_type", "")
    if chosen not in tuple(ServiceType):
        raise Invalid("INVALID_FIELD", f"The type must be one of {', '.join(ServiceType)}")
    return create_request(
        values, service_type=ServiceType(chosen), wal_level=wal_level_of_form(values), **kept_fields(values)
    )


def create_request(values: Mapping[str, str], **more: Any) -> CreateRequest:
    """Return the request for a new service that the fields of a form make. Raises Invalid."""
    cpu, memory = split_size(values.get("size", ""))
    return CreateRequest(
        name=values.get("name", ""),
        cpu_millis=cpu,
        memory_gbs=memory,
        environment=environment_of(values),
        pg_major=wanted_major(values),
        **more,
    )
