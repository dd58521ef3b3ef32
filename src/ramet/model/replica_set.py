"""Read replica sets: read-only copies of a service that follow it, behind one endpoint."""

from dataclasses import dataclass
from datetime import datetime

from ramet.model.environment import Environment
from ramet.model.procedures import SPECS
from ramet.model.size import Size
from ramet.model.status import Activity, OperationStatus, ReplicaSetStatus

NODES_LIMIT = 4


@dataclass(frozen=True)
class Node:
    """One server of a set: its id on the host, and the port it listens on."""

    id: str
    port: int


@dataclass(frozen=True)
class ReplicaSet:
    """A set as the store knows it. The first node has the set's id.

    `port` is the endpoint's: the node's own where there is one, a balancer's where there are several.
    `paused` says that its service is, and so are its nodes.
    """

    id: str
    project_id: str
    service_id: str
    name: str
    environment: Environment
    size: Size
    nodes: tuple[Node, ...]
    host: str
    port: int
    created_at: datetime
    pooler_port: int | None = None
    ready_at: datetime | None = None
    failed_at: datetime | None = None
    failure: str | None = None
    deleted_at: datetime | None = None
    down_reason: str | None = None
    paused: bool = False
    activity: Activity | None = None


def replica_status(replica_set: ReplicaSet) -> ReplicaSetStatus:
    """Compute the status that clients see. What does not serve and is not being changed is an error."""
    activity = replica_set.activity
    if replica_set.failed_at is not None:
        return ReplicaSetStatus.ERROR
    if activity is not None:
        shown = None if activity.status == OperationStatus.UNDOING else SPECS[activity.procedure].set_status
        return shown or ReplicaSetStatus.ERROR
    serves = replica_set.down_reason is None and not replica_set.paused
    return ReplicaSetStatus.ACTIVE if serves else ReplicaSetStatus.ERROR


def replica_status_reason(replica_set: ReplicaSet) -> str | None:
    """Say in a sentence why a set does not serve; None when it does, or is being changed."""
    if replica_status(replica_set) is not ReplicaSetStatus.ERROR:
        return None
    if replica_set.failure is not None:
        return replica_set.failure
    if replica_set.activity is not None:
        return replica_set.activity.error or "It is being started."
    if replica_set.paused:
        return f"Its service {replica_set.service_id} is paused; it serves again when that is resumed."
    return replica_set.down_reason
