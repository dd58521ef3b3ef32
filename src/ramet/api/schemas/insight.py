"""The schemas of what a server does."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import OptionalTimestamp

Text = Annotated[str, Meta(description="With a mask for each string constant, and without comments.")]
Role = Annotated[str | None, Meta(description="Null if it does not exist any more.")]
Milliseconds = Annotated[float, Meta(description="In milliseconds.")]


class TopStatement(Struct, frozen=True):
    """A statement and what it took in total, as pg_stat_statements counts it."""

    text: Text
    database: str
    role: Role
    calls: int
    total_ms: Milliseconds
    mean_ms: Milliseconds
    rows: int
    blocks_hit: Annotated[int, Meta(description="Blocks that were in shared_buffers.")]
    blocks_read: Annotated[int, Meta(description="Blocks that were not.")]


class TopStatements(Struct, frozen=True):
    """Statements, the one that took most time first."""

    statements: list[TopStatement]


class Session(Struct, frozen=True):
    """A session, as pg_stat_activity shows it; null where it has no such value."""

    pid: int
    kind: Annotated[str, Meta(description="PostgreSQL's backend_type, such as client backend.")]
    database: str | None
    role: str | None
    application: str | None
    address: Annotated[str | None, Meta(description="Of the client; null for one over a pooler.")]
    state: str | None
    waits_for: Annotated[str | None, Meta(description="PostgreSQL's wait_event_type and wait_event.")]
    blocked_by: Annotated[
        list[int], Meta(description="The pid of each session whose locks it waits for; 0 for a prepared transaction.")
    ]
    transaction_seconds: Annotated[float | None, Meta(description="Since its transaction began.")]
    state_seconds: Annotated[float | None, Meta(description="Since it is in its state.")]
    text: Annotated[
        str | None,
        Meta(description="The statement that it runs or ran last, with masks for string constants."),
    ]


class Activity(Struct, frozen=True):
    """Sessions: those that wait for locks first, then those that they wait for."""

    sessions: list[Session]


Bytes = Annotated[
    int | None, Meta(description="In bytes; null while somebody holds or awaits an ACCESS EXCLUSIVE lock on it.")
]


class TableSize(Struct, frozen=True):
    """A table or materialized view with what belongs to it."""

    schema: str
    name: str
    total_bytes: Bytes
    heap_bytes: Bytes
    indexes_bytes: Bytes
    toast_bytes: Bytes
    rows: Annotated[int | None, Meta(description="As PostgreSQL estimates; null if it was never analyzed.")]
    dead_rows: Annotated[int, Meta(description="Those that VACUUM will remove, as PostgreSQL estimates.")]
    vacuumed_at: OptionalTimestamp
    analyzed_at: OptionalTimestamp


class UnusedIndex(Struct, frozen=True):
    """An index that no scan has used, and that no constraint needs."""

    schema: str
    table: str
    name: str
    size_bytes: Bytes


class Tables(Struct, frozen=True):
    """What fills a database, the largest first. Scans on read replicas are not counted."""

    database: str
    tables: list[TableSize]
    unused_indexes: list[UnusedIndex]
    counted_since: Annotated[OptionalTimestamp, Meta(description="Since when scans are counted; null if not known.")]
    is_complete: Annotated[bool, Meta(description="False: there are so many tables that not all were measured.")]
