"""An operation as the lists of operations show it, with its events."""

from dataclasses import dataclass
from datetime import datetime

from ramet.acting import Actor
from ramet.model.status import OperationStatus


@dataclass(frozen=True)
class Event:
    """One entry of an operation's history. `seconds` is the time since the step began."""

    operation_id: str
    step: str
    outcome: str
    at: datetime
    seconds: float
    error: str | None = None


@dataclass(frozen=True)
class OperationRecord:
    """An operation with its events. `step` is the present one, or the last.

    Those on a read replica set belong to its service, and carry the set's name. `reason` says why Ramet began it by
    itself, where it says so. `actor` is who asked for it, where that is known.
    """

    id: str
    service_id: str
    service_name: str
    procedure: str
    status: OperationStatus
    step: str
    progress: str
    error: str | None
    created_at: datetime
    finished_at: datetime | None
    events: tuple[Event, ...] = ()
    reason: str | None = None
    actor: Actor | None = None
