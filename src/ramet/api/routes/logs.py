"""A service's log over HTTP."""

from typing import Annotated

from litestar import Response, Router, get
from litestar.params import QueryParameter
from msgspec import UNSET

from ramet.api.queries import whole_number
from ramet.api.responses import PlaneDependency, ProjectId, ServiceId, answer, errors
from ramet.api.schemas.logs import ServiceLogEntry, ServiceLogs
from ramet.control import logs
from ramet.errors import Invalid
from ramet.model.logs import SEVERITIES, LogPage, LogQuery
from ramet.model.moments import parse_moment

MOST_TERMS = 20

Node = Annotated[
    str | None,
    QueryParameter(name="node", required=False, description="Of a read replica set: which of its nodes, from 0 on."),
]
Cursor = Annotated[
    str | None, QueryParameter(name="cursor", required=False, description="The last_cursor of the page before.")
]
Until = Annotated[
    str | None, QueryParameter(name="until", required=False, description="The newest moment wanted; RFC 3339.")
]
Since = Annotated[
    str | None, QueryParameter(name="since", required=False, description="The oldest moment wanted; RFC 3339.")
]
Search = Annotated[
    list[str] | None,
    QueryParameter(name="search", required=False, description="Text to be in the message; all of several."),
]
Severities = Annotated[
    list[str] | None,
    QueryParameter(
        name="severities", required=False, description=f"One of several of {', '.join(SEVERITIES)}; in any letters."
    ),
]


@get(
    "/logs",
    operation_id="getServiceLogs",
    summary="Read the log of a service",
    responses=errors(400, 403, 404),
    sync_to_thread=True,
)
def get_logs(
    plane: PlaneDependency,
    project_id: ProjectId,
    service_id: ServiceId,
    node: Node = None,
    cursor: Cursor = None,
    until: Until = None,
    since: Since = None,
    search: Search = None,
    severities: Severities = None,
) -> Response[ServiceLogs]:
    """What the server of the service wrote, newest first, up to 500 entries; last_cursor leads to older ones."""
    query = LogQuery(
        since=None if since is None else parse_moment("since", since),
        until=None if until is None else parse_moment("until", until),
        search=_terms("search", search),
        severities=_severities(severities),
        cursor=cursor,
    )
    return answer(_shape(logs.read_logs(plane, project_id, service_id, query, whole_number("node", node, 0))))


def _terms(name: str, texts: list[str] | None) -> list[str]:
    terms = texts or []
    blank = [term for term in terms if not term.strip()]
    if blank or len(terms) > MOST_TERMS:
        wrong = f"{blank[0][:40]!r}" if blank else f"{len(terms)} texts"
        raise Invalid(
            "INVALID_PARAMETER",
            f"{name} cannot be {wrong}: send at most {MOST_TERMS} texts that are not blank",
            "Leave it out to get all entries.",
        )
    return terms


def _severities(texts: list[str] | None) -> list[str]:
    terms = [term.upper() for term in _terms("severities", texts)]
    unknown = [term for term in terms if term not in SEVERITIES]
    if unknown:
        raise Invalid(
            "INVALID_PARAMETER",
            f"severities cannot be {unknown[0][:40]!r}: PostgreSQL has no such severity",
            f"Send some of {', '.join(SEVERITIES)}.",
        )
    return terms


def _shape(page: LogPage) -> ServiceLogs:
    cursor = UNSET if page.cursor is None else page.cursor
    return ServiceLogs(
        logs=[entry.message for entry in page.entries],
        entries=[ServiceLogEntry(entry.at, entry.message, entry.severity) for entry in page.entries],
        last_cursor=cursor,
        lastCursor=cursor,
    )


logs_router = Router(
    "/projects/{project_id:str}/services/{service_id:str}", route_handlers=[get_logs], tags=["Observation"]
)
