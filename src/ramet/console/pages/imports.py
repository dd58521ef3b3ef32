"""Importing a database: the form, and the report of what an import would do."""

from collections.abc import Mapping

from litestar import Response, post
from litestar.params import FromQuery

from ramet.console.context import CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.pages.source_form import SourceForm, source_of
from ramet.console.rendering import page
from ramet.console.views.forms import values_of
from ramet.control.services import get_service_including_deleted
from ramet.imports.source_url import source_url
from ramet.imports.verbs import ImportRequest, import_report, import_service, import_source, plan_import


def _request(values: Mapping[str, str]) -> ImportRequest:
    return ImportRequest(**source_of(values), owners=values.get("owners") != "admin")


_FORM = SourceForm("service_import.html", _request, plan_import, import_service)


@read("/import", operation="importService", sync_to_thread=True)
def import_page(session: SignedIn, again: FromQuery[str] = "") -> Response[str]:
    """Show the form; with the values of the import of a service that is to be made again."""
    return _FORM.show(session, {"size": "shared", "owners": "keep"} if not again else _values_again(session, again))


@post("/import", operation="importService", sync_to_thread=True, status_code=200)
def import_database(session: SignedIn, fields: Fields) -> Response[str] | Response[None]:
    """Examine a source, or import it."""
    return _FORM.submit(session, fields)


@read("/services/{service_id:str}/import", operation="getImportReport", sync_to_thread=True)
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
