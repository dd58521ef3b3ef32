"""The schemas of a service's log."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import Timestamp, twin_of


class ServiceLogEntry(Struct, frozen=True):
    """One message of a server; severity is PostgreSQL's own word."""

    timestamp: Timestamp
    message: str
    severity: str


class ServiceLogs(Struct, frozen=True, omit_defaults=True):
    """A page of log entries, newest first; the last page has no last_cursor."""

    logs: Annotated[
        list[str], Meta(description="The messages alone, for older clients.", extra_json_schema={"deprecated": True})
    ]
    entries: list[ServiceLogEntry]
    last_cursor: str | None = None
    lastCursor: Annotated[str, twin_of("last_cursor", "LastCursorDeprecated")] | None = None  # noqa: N815
