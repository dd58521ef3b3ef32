"""The schemas of operations."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import Identifier, Timestamp
from ramet.model.status import OperationStatus

Finished = Annotated[datetime | None, Meta(description="RFC 3339, in UTC; null while it is under way.")]


class OperationStep(Struct, frozen=True):
    """One entry of an operation's history: a step that was done, tried again, given up or undone."""

    step: str
    outcome: str
    at: Timestamp
    seconds: float
    error: str | None


class Operation(Struct, frozen=True):
    """Work on a service: what it is, how far it is, and why it failed if it did."""

    id: Identifier
    service_id: Identifier
    service_name: str
    operation: str
    status: OperationStatus
    step: Annotated[str, Meta(description="The present step, or the last one.")]
    progress: Annotated[str, Meta(description="What the step waits for; empty when it does not wait.")]
    error: str | None
    created: Timestamp
    finished: Finished
    seconds: Annotated[float | None, Meta(description="From the request to the end; null while it is under way.")]
    steps: list[OperationStep]


class Operations(Struct, frozen=True, omit_defaults=True):
    """Operations, newest first; without last_cursor it is the last page."""

    operations: list[Operation]
    last_cursor: str | None = None
