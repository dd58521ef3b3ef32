"""The statuses that clients see, and how far an operation is."""

from enum import StrEnum


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
