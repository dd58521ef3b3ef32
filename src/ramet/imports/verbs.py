"""The verbs over imports: check a source, import it, and read the report."""

from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from ramet.backends.interface.sources import SourceAddress, SourceFacts
from ramet.control.idempotency import earlier_answer
from ramet.control.plane import Plane
from ramet.control.ports import endpoint_host
from ramet.control.requests import Accepted, CreateRequest
from ramet.control.services import accept_new, checked_request, get_service_including_deleted
from ramet.control.slots import examining
from ramet.errors import Invalid, NotFound
from ramet.ids import new_id
from ramet.imports.findings import Finding, refuse
from ramet.imports.report import judge
from ramet.imports.source_url import parse_source
from ramet.model.passwords import Secret
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service
from ramet.procedures.state import ImportState
from ramet.store import operations

_LONGEST_PASSWORD = 1000


# Repeated requests are known by their repr: see CreateRequest.
@dataclass(frozen=True)
class SourceRequest:
    """A service that is made of the database at `url`."""

    create: CreateRequest
    url: str
    password: Secret = field(repr=False)
    root_certificate: str | None = None


@dataclass(frozen=True)
class ImportRequest(SourceRequest):
    """A service with the contents of the database at `url`. Without `owners` the admin owns all of it."""

    owners: bool = True


@dataclass(frozen=True)
class SourcePlan:
    """What a request would do. `service` has no id, port and password yet."""

    source: SourceAddress
    facts: Any
    findings: list[Finding]
    service: Service

    @property
    def report(self) -> dict[str, Any]:
        """The report as it is stored."""
        return {
            "source": str(self.source),
            "version": self.facts.version,
            "size_bytes": self.facts.size_bytes,
            "findings": [{**asdict(one), "effect": one.effect.value} for one in self.findings],
        }


@dataclass(frozen=True)
class ImportPlan(SourcePlan):
    """What an import would do."""

    facts: SourceFacts

    @property
    def report(self) -> dict[str, Any]:
        """The report as it is stored."""
        tables, large_objects = self.facts.table_count, self.facts.large_object_count
        known = {"pg_major": self.service.pg_major, "tables": tables, "large_objects": large_objects}
        return super().report | known


def plan_import(plane: Plane, project_id: str, request: ImportRequest) -> ImportPlan:
    """Examine a source, and return what an import would do. Nothing is made."""
    source = parse_source(request.url, request.root_certificate)
    wanted = checked_request(plane, project_id, request.create)
    check_source_password(request.password)
    create = request.create
    with examining(plane.examinations, project_id):
        examine = plane.backend.sources.examine
        facts, destination = examine(source, request.password, create.service_type, create.pg_major)
    findings = judge(facts, destination, owners=request.owners, pg_major=create.pg_major)
    if destination.pg_major is not None:
        host = endpoint_host(plane, destination.pg_major)
        wanted = replace(wanted, pg_major=destination.pg_major, host=host)
    return ImportPlan(source, facts, findings, wanted)


def import_service(
    plane: Plane, project_id: str, request: ImportRequest, idempotency_key: str | None = None
) -> Accepted:
    """Accept a service with the contents of a database elsewhere. Raises Invalid with all that speaks against it."""
    if (earlier := earlier_answer(plane, project_id, idempotency_key, request)) is not None:
        return earlier
    plan = plan_import(plane, project_id, request)
    refuse(plan.findings, "IMPORT_REFUSED", f"{plan.source} cannot be imported")
    major, host = plan.service.pg_major, plane.backend.host
    host.check_service_type(request.create.service_type, major)
    plane.placement.check_tls(major, has_tls=host.has_tls(major))
    state = ImportState(
        snapshot_id=new_id(),
        source=plan.source,
        facts=plan.facts,
        owners=request.owners,
        sealed=plane.backend.sources.seal(request.password),
        report=plan.report,
    )
    return accept_new(plane, project_id, request, idempotency_key, plan.service, ProcedureName.IMPORT, state)


def import_report(plane: Plane, project_id: str, service_id: str) -> dict[str, Any]:
    """Return the report of an import, also of one that failed. Raises NotFound for any other service."""
    found = _import_of(plane, project_id, service_id)
    report: dict[str, Any] = {**found.state["report"], "status": found.status.value, "error": found.error}
    return report


def import_source(plane: Plane, project_id: str, service_id: str) -> tuple[SourceAddress, bool]:
    """Return the source of an import, also of one that failed, and whether owners are kept. Raises NotFound."""
    state = _import_of(plane, project_id, service_id).state
    return msgspec.convert(state["source"], SourceAddress), state["owners"]


def _import_of(plane: Plane, project_id: str, service_id: str) -> operations.Operation:
    service = get_service_including_deleted(plane, project_id, service_id)
    with plane.store.read() as tx:
        made = operations.of_subject(tx, service.id, ProcedureName.IMPORT, 1)
    if not made:
        raise NotFound("NO_IMPORT", f"Service {service.id} was not imported, so it has no report of an import")
    return made[0]


def check_source_password(password: Secret) -> None:
    """Raise Invalid for a password that no source can have."""
    text = password.reveal()
    if not 1 <= len(text) <= _LONGEST_PASSWORD or not text.isprintable():
        raise Invalid(
            "INVALID_PASSWORD",
            f"source_password must have 1 to {_LONGEST_PASSWORD} printable characters",
            "Send the password of the role that the URL names.",
        )
