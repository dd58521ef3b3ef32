"""The schemas of what a server does."""

from typing import Annotated

from msgspec import Meta, Struct

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
