"""Importing a database: the form, and the report of what an import would do."""

from collections.abc import Mapping, Sequence

from litestar import Response, post
from litestar.params import FromQuery

from ramet.console.context import CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.pages.services import created_page
from ramet.console.rendering import page
from ramet.console.views.forms import Form, environment_of, new_key, refused, sizes, split_size, values_of, wanted_major
from ramet.control.requests import CreateRequest
from ramet.control.services import get_service_including_deleted
from ramet.errors import Error
from ramet.imports.report import Finding
from ramet.imports.source_url import source_url
from ramet.imports.verbs import ImportRequest, import_report, import_service, import_source, plan_import
from ramet.model.passwords import Secret


@read("/import", sync_to_thread=True)
def import_page(session: SignedIn, again: FromQuery[str] = "") -> Response[str]:
    """Show the form; with the values of the import of a service that is to be made again."""
    values = {"size": "shared", "owners": "keep"} if not again else _values_again(session, again)
    return _import_page(session, Form({**values, "key": new_key()}))


@post("/import", sync_to_thread=True, status_code=200)
def import_database(session: SignedIn, fields: Fields) -> Response[str] | Response[None]:
    """Examine a source, or import it; the form never contains the password again."""
    shown = {name: value for name, value in fields.items() if name != "password"}
    try:
        request = _request(fields)
        if fields.get("action") == "check":
            plan = plan_import(session.plane, session.project_id, request)
            return _import_page(session, Form(shown), findings=plan.findings, source=str(plan.source))
        accepted = import_service(session.plane, session.project_id, request, fields.get("key"))
    except Error as error:
        return _import_page(session, refused(shown, error), status_code=form_status(error))
    return created_page(session, accepted)


@read("/services/{service_id:str}/import", sync_to_thread=True)
def import_report_page(session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Show what an import changed and left out, and how it ended; also of one that failed."""
    report = import_report(session.plane, session.project_id, service_id)
    service = get_service_including_deleted(session.plane, session.project_id, service_id)
    return page("service_import_report.html", session, service=service, report=report)


def _values_again(session: CurrentSession, service_id: str) -> dict[str, str]:
    source, keeps_owners = import_source(session.plane, session.project_id, service_id)
    service = get_service_including_deleted(session.plane, session.project_id, service_id)
    values = values_of(service, source_url(source), source.root_certificate)
    return {**values, "owners": "keep" if keeps_owners else "admin", "version": str(service.pg_major)}


def _import_page(
    session: CurrentSession,
    form: Form,
    *,
    findings: Sequence[Finding] | None = None,
    source: str = "",
    status_code: int = 200,
) -> Response[str]:
    majors = session.plane.backend.upgrades.majors()
    values = {"form": form, "sizes": sizes(session.plane), "majors": majors, "findings": findings, "source": source}
    return page("service_import.html", session, status_code=status_code, **values)


def _request(values: Mapping[str, str]) -> ImportRequest:
    cpu, memory = split_size(values.get("size", ""))
    create = CreateRequest(
        name=values.get("name", ""),
        cpu_millis=cpu,
        memory_gbs=memory,
        environment=environment_of(values),
        pg_major=wanted_major(values),
    )
    return ImportRequest(
        create=create,
        url=values.get("url", ""),
        password=Secret(values.get("password", "")),
        root_certificate=values.get("root_certificate") or None,
        owners=values.get("owners") != "admin",
    )
