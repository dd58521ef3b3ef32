"""Imports: services with the contents of databases elsewhere."""

from typing import Any

import msgspec
from litestar import Response
from litestar.openapi import ResponseSpec
from litestar.params import JSONBody

from ramet.api.errors import REFUSES
from ramet.api.parameters import DryRun, IdempotencyKey, ProjectId, checked_key
from ramet.api.responses import OF_PROJECT, PlaneDependency, ServicePath, accept, answer, read_in_thread, router_of
from ramet.api.routes.services import accepted_service, create_request, named_type, source_fields
from ramet.api.schemas.imports import ImportReport, ServiceImport
from ramet.api.schemas.services import Service
from ramet.imports import verbs
from ramet.imports.verbs import ImportRequest

_REPORTED = ResponseSpec(ImportReport, generate_examples=False, description="With dry_run: what the import would do.")


@accept("/imports", operation_id="importService", summary="Import a database", responses={200: _REPORTED})
def import_service(
    plane: PlaneDependency,
    project_id: ProjectId,
    data: JSONBody[ServiceImport],
    idempotency_key: IdempotencyKey = None,
    dry_run: DryRun = False,
) -> Response[Service]:
    """Accept a new service with the contents of a database elsewhere, after that was examined.

    A source that cannot be imported is refused with all reasons. With dry_run nothing is created, and the response is
    200 with the report.
    """
    request = ImportRequest(
        create=create_request(data, service_type=named_type(data.service_type)),
        **source_fields(data),
        owners=data.keep_owners is not False,
    )
    if dry_run:
        return answer(report_shape(verbs.plan_import(plane, project_id, request).report))
    return accepted_service(verbs.import_service(plane, project_id, request, checked_key(idempotency_key)))


@read_in_thread(
    "/services/{service_id:str}/importReport",
    operation_id="getImportReport",
    summary="Get the report of an import",
    opt={REFUSES: True},
)
def get_import_report(at: ServicePath) -> Response[ImportReport]:
    """What an import changed, what it left out, and how it ended; also of an import that failed."""
    return answer(report_shape(verbs.import_report(*at)))


def report_shape(report: dict[str, Any]) -> ImportReport:
    """Return what clients see of a stored report."""
    fetched, loaded = report.get("fetched", {}), report.get("loaded", {})
    known = {
        "received_bytes": fetched.get("received_bytes"),
        "fetch_seconds": fetched.get("seconds"),
        "load_seconds": loaded.get("seconds"),
        "loaded_tables": loaded.get("tables"),
        "problems": loaded.get("problems"),
    }
    return msgspec.convert({**report, **known}, ImportReport)


imports_router = router_of(__name__, "Services", OF_PROJECT)
