"""What clients decode: strict shapes, written from the rules and not from the code under test."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Id = Annotated[str, Meta(pattern=r"^[a-z0-9]{10}$")]
Time = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$")]
Port = Annotated[int, Meta(ge=1, le=65535)]
Status = Literal[
    "QUEUED", "DELETING", "CONFIGURING", "READY", "DELETED", "UNSTABLE", "PAUSING", "PAUSED", "RESUMING", "UPGRADING",
    "OPTIMIZING",
]  # fmt: skip


class Endpoint(Struct):
    host: str
    port: Port


class Pooler(Struct):
    endpoint: Endpoint


class Spec(Struct):
    cpu_millis: int | None
    memory_gbs: int | None
    volume_type: str


class Resource(Struct):
    id: str
    spec: Spec


class Metadata(Struct):
    environment: Literal["DEV", "PROD"]
    status_reason: str | UnsetType = UNSET


class ForkedFrom(Struct):
    project_id: str
    service_id: Id
    is_standby: bool


class HaReplicas(Struct):
    sync_replica_count: int
    replica_count: int


class ReplicaMetadata(Struct):
    environment: str


class ReplicaSet(Struct, kw_only=True):
    id: Id
    name: str
    status: Literal["creating", "active", "resizing", "deleting", "error"]
    nodes: int
    cpu_millis: int
    memory_gbs: int
    metadata: ReplicaMetadata
    endpoint: Endpoint
    connection_pooler: Pooler | None = None


class Metrics(Struct):
    memory_mb: int | None
    storage_mb: int | None
    milli_cpu: int | None


class Service(Struct, kw_only=True):
    service_id: Id
    project_id: str
    name: str
    region_code: str
    service_type: Literal["TIMESERIESDB", "POSTGRES", "VECTOR"]
    created: Time
    paused: bool
    status: Status
    resources: list[Resource]
    metadata: Metadata
    endpoint: Endpoint
    forked_from: ForkedFrom | None = None
    ha_replicas: HaReplicas
    connection_pooler: Pooler | None = None
    read_replica_sets: list[ReplicaSet]
    metrics: Metrics | None = None
    vpcEndpoint: None = None  # noqa: N815
    vpc_endpoint: None = None
    initial_password: str | UnsetType = UNSET


class Error(Struct):
    code: Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]*$")]
    message: Annotated[str, Meta(min_length=1)]
    details: str = ""


class Message(Struct):
    message: Annotated[str, Meta(min_length=1)]


class LogEntry(Struct):
    timestamp: Time
    message: str
    severity: str


class Logs(Struct):
    logs: list[str]
    entries: list[LogEntry]
    last_cursor: str | UnsetType = UNSET
    lastCursor: str | UnsetType = UNSET  # noqa: N815


class Point(Struct):
    time: Time
    value: float | None


class Series(Struct):
    labels: dict[str, str]
    data: list[Point]


class Step(Struct):
    step: str
    outcome: str
    at: Time
    seconds: float
    error: str | None


class Operation(Struct):
    id: Id
    service_id: Id
    operation: str
    status: Literal["RUNNING", "UNDOING", "SUCCEEDED", "FAILED"]
    error: str | None
    created: Time
    finished: Time | None
    steps: list[Step]


class Operations(Struct):
    operations: list[Operation]
    last_cursor: str | UnsetType = UNSET


def decode(content: bytes, shape: Any) -> Any:
    """Decode as a strict client does: no number for an integer, no absent field, no other type."""
    return msgspec.json.decode(content, type=shape)
