"""The statuses that clients see, and what they depend on: the operation under way."""

from datetime import timedelta
from enum import StrEnum

from msgspec import Struct

FAILED_SHOWN_FOR = timedelta(seconds=15)


class Status(StrEnum):
    """The statuses of services: those of the published interface, all eleven."""

    QUEUED = "QUEUED"
    DELETING = "DELETING"
    CONFIGURING = "CONFIGURING"
    READY = "READY"
    DELETED = "DELETED"
    UNSTABLE = "UNSTABLE"
    PAUSING = "PAUSING"
    PAUSED = "PAUSED"
    RESUMING = "RESUMING"
    UPGRADING = "UPGRADING"
    OPTIMIZING = "OPTIMIZING"


READY_OR_PAUSED = (Status.READY, Status.PAUSED)
PASSING = frozenset(
    (
        *(Status.QUEUED, Status.CONFIGURING, Status.RESUMING, Status.UPGRADING),
        *(Status.OPTIMIZING, Status.PAUSING, Status.DELETING),
    )
)
"""The statuses that show an operation under way: without anybody's doing another one follows."""


class ReplicaSetStatus(StrEnum):
    """The statuses of read replica sets."""

    CREATING = "creating"
    ACTIVE = "active"
    RESIZING = "resizing"
    DELETING = "deleting"
    ERROR = "error"


class OperationStatus(StrEnum):
    """How far an operation is; only the first two are under way."""

    RUNNING = "RUNNING"
    UNDOING = "UNDOING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class Activity(Struct, frozen=True, gc=False):
    """The operation under way on a service or a read replica set, as far as the status depends on it."""

    operation_id: str
    procedure: str
    status: OperationStatus
    started: bool
    error: str | None = None
