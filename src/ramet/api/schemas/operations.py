"""The schemas of operations."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import Identifier, Timestamp
from ramet.model.status import OperationStatus

Finished = Annotated[datetime | None, Meta(description="RFC 3339, in UTC; null while it is running.")]


class OperationStep(Struct, frozen=True):
    """An entry of an operation's history: a step that succeeded, was retried, failed or was undone."""

    step: str
    outcome: str
    at: Timestamp
    seconds: float
    error: str | None


class Actor(Struct, frozen=True, omit_defaults=True):
    """Who acts."""

    kind: Annotated[str, Meta(description="One of key, host, ramet, unknown.")]
    id: Annotated[str, Meta(description="The public key, the user on the host, or the part of Ramet.")] = ""
    name: Annotated[str, Meta(description="The name of the key.")] = ""


class Operation(Struct, frozen=True, omit_defaults=True):
    """An operation on a service: its kind, its progress, and its error if it failed."""

    id: Identifier
    service_id: Identifier
    service_name: str
    operation: str
    status: OperationStatus
    step: Annotated[str, Meta(description="The current step, or the last one.")]
    progress: Annotated[str, Meta(description="What the step waits for; empty if it does not wait.")]
    error: str | None
    reason: Annotated[str | None, Meta(description="Why Ramet began it by itself; null if it was requested.")]
    created: Timestamp
    finished: Finished
    seconds: Annotated[float | None, Meta(description="From the request to the end; null while it is running.")]
    steps: list[OperationStep]
    actor: Annotated[Actor | None, Meta(description="Who asked for it; absent if that is not known.")] = None


class Operations(Struct, frozen=True, omit_defaults=True):
    """A page of operations, newest first; the last page has no last_cursor."""

    operations: list[Operation]
    last_cursor: str | None = None
