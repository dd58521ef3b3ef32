"""The audit of a project: who changed what."""

from typing import Annotated

from litestar import Response
from litestar.params import QueryParameter

from ramet.api.parameters import Cursor, Limit, ProjectId
from ramet.api.responses import OF_PROJECT, PlaneDependency, answer, read_in_thread, router_of
from ramet.api.schemas.audit import AuditEntries, AuditEntry
from ramet.api.schemas.operations import Actor
from ramet.audit import verbs
from ramet.model.audit import Entry
from ramet.model.cursor import PAGE


def _filter(name: str, description: str, **schema: object) -> QueryParameter:
    return QueryParameter(
        name=name, required=False, description=description, schema_extra={"minLength": 1, "maxLength": 200} | schema
    )


ActorFilter = Annotated[
    str | None, _filter("actor", "Public key or name of a key, user on the host, or kind of actor.")
]
VerbFilter = Annotated[str | None, _filter("verb", "The verb, such as forkService.")]
SubjectFilter = Annotated[str | None, _filter("subject", "Id of a service, snapshot or read replica set.")]
OutcomeFilter = Annotated[str | None, _filter("outcome", "One of accepted, refused, failed, unchanged, started.")]
RequestFilter = Annotated[str | None, _filter("request_id", "The id of a request.")]
Since = Annotated[str | None, _filter("since", "RFC 3339: entries from this time on.", format="date-time")]
Until = Annotated[str | None, _filter("until", "RFC 3339: entries before this time.", format="date-time")]


@read_in_thread("/audit", operation_id="getAudit", summary="List the audit of a project")
def list_audit(
    plane: PlaneDependency,
    project_id: ProjectId,
    limit: Limit = PAGE,
    cursor: Cursor = None,
    actor: ActorFilter = None,
    verb: VerbFilter = None,
    subject: SubjectFilter = None,
    outcome: OutcomeFilter = None,
    request_id: RequestFilter = None,
    since: Since = None,
    until: Until = None,
) -> Response[AuditEntries]:
    """The changes in the project and the refused requests, newest first: who, from where, what, and how it ended."""
    wanted = verbs.filter_of(
        actor=actor, verb=verb, subject=subject, outcome=outcome, request_id=request_id, since=since, until=until
    )
    page = verbs.list_audit(plane, project_id, wanted, limit, cursor)
    return answer(AuditEntries([entry_shape(entry) for entry in page.items], page.cursor))


def entry_shape(entry: Entry) -> AuditEntry:
    """Return an entry as the interface shows it."""
    return AuditEntry(
        sequence=entry.sequence,
        at=entry.at,
        actor=Actor(entry.actor.kind, entry.actor.id, entry.actor.name),
        via=entry.via,
        verb=entry.verb,
        outcome=entry.outcome,
        link=entry.link,
        address=entry.address,
        subject=entry.subject,
        fields=dict(entry.fields) or None,
        code=entry.code,
        operation_id=entry.operation_id,
        request_id=entry.request_id,
    )


audit_router = router_of(__name__, "Audit", OF_PROJECT)
