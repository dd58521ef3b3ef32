"""Logs of services."""

from collections.abc import Sequence
from typing import Annotated

from litestar import Response
from litestar.params import QueryParameter
from msgspec import Meta

from ramet.api.parameters import Cursor
from ramet.api.responses import ServicePath, answer, read_in_thread, router_of
from ramet.api.schemas.logs import ServiceLogEntry, ServiceLogs
from ramet.control import logs
from ramet.errors import Invalid
from ramet.model.logs import SEVERITIES, LogPage, LogQuery
from ramet.model.timestamps import parse_timestamp

_MOST_TERMS = 20
_TIME = {"format": "date-time"}

Node = Annotated[
    int,
    QueryParameter(
        name="node",
        ge=0,
        description="Of a read replica set: which of its nodes, from 0 on.",
        schema_extra={"minimum": 0},
    ),
]
Until = Annotated[
    str | None, QueryParameter(name="until", description="The newest time to return; RFC 3339.", schema_extra=_TIME)
]
Since = Annotated[
    str | None, QueryParameter(name="since", description="The oldest time to return; RFC 3339.", schema_extra=_TIME)
]
Search = Annotated[
    list[Annotated[str, Meta(pattern=r"\S")]] | None,
    QueryParameter(
        name="search",
        max_items=_MOST_TERMS,
        description=f"Up to {_MOST_TERMS} texts, none of them blank; the message must contain all of them.",
        schema_extra={"items": {"type": "string", "pattern": r"\S"}},
    ),
]
Severities = Annotated[
    list[str] | None,
    QueryParameter(
        name="severities",
        max_items=_MOST_TERMS,
        description=f"Any of {', '.join(SEVERITIES)}; in upper or lower case.",
        schema_extra={"items": {"type": "string", "enum": list(SEVERITIES)}},
    ),
]


@read_in_thread("/logs", operation_id="getServiceLogs", summary="Read the log of a service")
def get_logs(
    at: ServicePath,
    node: Node = 0,
    cursor: Cursor = None,
    until: Until = None,
    since: Since = None,
    search: Search = None,
    severities: Severities = None,
) -> Response[ServiceLogs]:
    """Up to 500 entries of the server's log, newest first; send last_cursor as cursor to get older ones."""
    query = LogQuery(
        since=None if since is None else parse_timestamp("since", since),
        until=None if until is None else parse_timestamp("until", until),
        search=search or [],
        severities=_severities(severities or []),
        cursor=cursor,
    )
    return answer(_shape(logs.read_logs(*at, query, node)))


def _severities(texts: Sequence[str]) -> list[str]:
    unknown = [text for text in texts if text.upper() not in SEVERITIES]
    if unknown:
        message = f"Invalid value for severities: {unknown[0][:40]!r}"
        raise Invalid("INVALID_PARAMETER", message, f"Known severities: {', '.join(SEVERITIES)}.")
    return [text.upper() for text in texts]


def _shape(page: LogPage) -> ServiceLogs:
    return ServiceLogs(
        logs=[entry.message for entry in page.entries],
        entries=[ServiceLogEntry(entry.at, entry.message, entry.severity) for entry in page.entries],
        last_cursor=page.cursor,
        lastCursor=page.cursor,
    )


logs_router = router_of(__name__, "Observation")
