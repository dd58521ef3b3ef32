"""The shapes that travel over HTTP, answers and requests, as msgspec structs.

They are the interface: openapi.json is made from them. What fills them is in `shapes`, what checks requests in `body`.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, Struct, UnsetType

from ramet.model.fork import ForkStrategy
from ramet.model.replica import ReplicaSetStatus
from ramet.model.service import Environment, ServiceType, Status


def twin_of(name: str, go_name: str) -> Meta:
    """Return what is documented of an older name of a field; generators for Go would name both fields alike."""
    return Meta(description=f"Same as {name}.", extra_json_schema={"deprecated": True, "x-go-name": go_name})


Identifier = Annotated[str, Meta(pattern="^[a-z0-9]{10}$")]
Moment = Annotated[datetime, Meta(tz=True, description="RFC 3339, in UTC.")]
Password = Annotated[str, Meta(description="Shown this once.", extra_json_schema={"format": "password"})]
Reason = Annotated[str, Meta(description="Why the service is UNSTABLE.")]
StrategyUsed = Annotated[str, Meta(description="Of a fork: the strategy it was made with.")]
TargetUsed = Annotated[str, Meta(description="Of a PITR fork: the target as the caller wrote it.")]
DataTime = Annotated[datetime, Meta(tz=True, description="Of a fork: the moment whose data it holds, once known.")]
SnapshotUsed = Annotated[str, Meta(description="Of a fork: the parent's snapshot it grew from.")]
ProvenRestore = Annotated[datetime, Meta(tz=True, description="The newest moment that a restore drill has recovered.")]
RestoreWarning = Annotated[str, Meta(description="What is wrong with restoring the service.")]
StorageWarning = Annotated[str, Meta(description="Why sessions are read-only at present: the storage is nearly full.")]
ParentName = Annotated[str, Meta(description="Of a fork: its parent's name at that time.")]

Name = Annotated[
    str,
    Meta(
        description="A string of 1 to 128 printable characters.", extra_json_schema={"minLength": 1, "maxLength": 128}
    ),
]
Cpu = Annotated[str | int, Meta(description="Thousandths of a core as a numeric string, such as '500', or 'shared'.")]
Memory = Annotated[str | int, Meta(description="Gigabytes as a numeric string, such as '2', or 'shared'.")]
Region = Annotated[str, Meta(description="The region code of this host as a string; may be left out.")]
ParentRegion = Annotated[str, Meta(description="The parent's region code as a string; may be left out.")]
ReplicaCount = Annotated[int, Meta(description="The integer 0, since one host has no high availability.")]
TargetTime = Annotated[
    str,
    Meta(
        description="With PITR, and only then: RFC 3339 with an offset, for example 2026-01-15T10:30:00Z.",
        extra_json_schema={"format": "date-time"},
    ),
]
SnapshotWanted = Annotated[
    str, Meta(description="With LAST_SNAPSHOT: the id of the snapshot to take instead of the newest, a string.")
]
Quiet = Annotated[
    bool, Meta(description="true or false: whether jobs, credentials and the like are disabled; for DEV they are.")
]
Strategy = Annotated[ForkStrategy, Meta(description="One of LAST_SNAPSHOT, NOW, PITR.")]
Tag = Annotated[Environment, Meta(description="One of DEV, PROD; DEV by default.")]
Properties = Annotated[dict[str, Any], Meta(description="An object; ignored.")]
Ignored = Annotated[str, Meta(description="A string; ignored.")]


class Endpoint(Struct, frozen=True, gc=False):
    """An address that clients connect to."""

    host: str
    port: int


class VpcEndpoint(Struct, frozen=True):
    """An address inside a private network; no backend has one yet."""

    host: str
    port: int
    vpc_id: str


class ConnectionPooler(Struct, frozen=True):
    """The address of a service's pooler."""

    endpoint: Endpoint


class ResourceSpec(Struct, frozen=True, gc=False):
    """A size; cpu_millis and memory_gbs are null for a shared service."""

    cpu_millis: int | None
    memory_gbs: int | None
    volume_type: str


class Resource(Struct, frozen=True, gc=False):
    """What is allocated to a service."""

    id: str
    spec: ResourceSpec


class ForkedFrom(Struct, frozen=True, gc=False):
    """The parent of a fork; is_standby is true for a read replica only."""

    project_id: str
    service_id: str
    is_standby: bool


class HaReplicas(Struct, frozen=True):
    """How many high-availability replicas a service has."""

    sync_replica_count: int
    replica_count: int


class ReplicaSetMetadata(Struct, frozen=True, omit_defaults=True):
    """More about a read replica set."""

    environment: Environment
    status_reason: Annotated[str, Meta(description="Why the set does not serve.")] | UnsetType = UNSET


class ReadReplicaSet(Struct, frozen=True, omit_defaults=True):
    """A group of read-only copies of a service behind one endpoint."""

    id: Identifier
    name: str
    status: ReplicaSetStatus
    nodes: int
    cpu_millis: int
    memory_gbs: int
    metadata: ReplicaSetMetadata
    endpoint: Endpoint
    connection_pooler: ConnectionPooler | None = None


class ServiceMetrics(Struct, frozen=True):
    """What a service uses now."""

    memory_mb: int | None
    storage_mb: int | None
    milli_cpu: int | None


class ServiceMetadata(Struct, frozen=True, gc=False, omit_defaults=True):
    """More about a service. What does not apply is left out."""

    environment: Environment
    status_reason: Reason | UnsetType = UNSET
    fork_strategy: StrategyUsed | UnsetType = UNSET
    target_time: TargetUsed | UnsetType = UNSET
    data_time: DataTime | UnsetType = UNSET
    snapshot_id: SnapshotUsed | UnsetType = UNSET
    parent_name: ParentName | UnsetType = UNSET
    last_proven_restore: ProvenRestore | UnsetType = UNSET
    restore_warning: RestoreWarning | UnsetType = UNSET
    storage_warning: StorageWarning | UnsetType = UNSET


class Service(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A PostgreSQL service. What does not apply is absent. Only answers to create and fork have `initial_password`."""

    service_id: Identifier
    project_id: str
    name: str
    region_code: str
    service_type: ServiceType
    created: Moment
    paused: bool
    status: Status
    resources: list[Resource]
    metadata: ServiceMetadata
    endpoint: Endpoint
    vpcEndpoint: Annotated[VpcEndpoint | None, twin_of("vpc_endpoint", "VpcEndpointDeprecated")] = None  # noqa: N815
    vpc_endpoint: VpcEndpoint | None = None
    forked_from: ForkedFrom | None = None
    ha_replicas: HaReplicas
    connection_pooler: ConnectionPooler | None = None
    read_replica_sets: list[ReadReplicaSet]
    metrics: ServiceMetrics | None = None
    initial_password: Password | UnsetType = UNSET


class Project(Struct, frozen=True):
    """A project: it holds services."""

    id: str
    name: str


class AuthInfoProject(Struct, frozen=True):
    """The project that a key opens."""

    id: str
    name: str
    plan_type: str


class AuthInfoIssuingUser(Struct, frozen=True):
    """Who made a key. Ramet has no users: the key stands for its holder."""

    id: str
    name: str
    email: Annotated[str, Meta(extra_json_schema={"format": "email"})]


class AuthInfoApiKey(Struct, frozen=True):
    """The key that a request was made with."""

    public_key: str
    name: str
    created: Moment
    project: AuthInfoProject
    issuing_user: AuthInfoIssuingUser


class AuthInfo(Struct, frozen=True):
    """Whose credentials a request carried."""

    type: str
    api_key: AuthInfoApiKey
    apiKey: Annotated[AuthInfoApiKey, twin_of("api_key", "ApiKeyDeprecated")]  # noqa: N815


class AnalyticsResult(Struct, frozen=True):
    """The answer to what is not recorded anywhere."""

    status: str


class ErrorBody(Struct, frozen=True, omit_defaults=True):
    """The one shape of every error: a code for programs, a sentence for a person, and details or the remedy."""

    code: Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]*$")]
    message: str
    details: str = ""


class Addon(StrEnum):
    """What a new service is to be able to do."""

    TIME_SERIES = "time-series"
    AI = "ai"


class ServiceTypeWanted(StrEnum):
    """The type of a new service. TIMESCALEDB is another name of TIMESERIESDB."""

    TIMESERIESDB = "TIMESERIESDB"
    TIMESCALEDB = "TIMESCALEDB"
    POSTGRES = "POSTGRES"
    VECTOR = "VECTOR"


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request. `inherited` names what a client may expect to set and cannot."""

    inherited: ClassVar[frozenset[str]] = frozenset()


class ServiceCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new, empty service. Without a size it is a shared one."""

    name: Name
    addons: Annotated[list[Addon], Meta(description="An array of 'time-series' and 'ai'.")] | UnsetType = UNSET
    service_type: (
        Annotated[
            ServiceTypeWanted,
            Meta(
                description="One of TIMESERIESDB (or TIMESCALEDB, which is the same), POSTGRES, VECTOR;"
                " takes precedence over addons."
            ),
        ]
        | UnsetType
    ) = UNSET
    region_code: Region | UnsetType = UNSET
    replica_count: ReplicaCount | UnsetType = UNSET
    cpu_millis: Cpu | UnsetType = UNSET
    memory_gbs: Memory | UnsetType = UNSET
    environment_tag: Tag | UnsetType = UNSET


class ForkServiceCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fork of a service. Type, region and storage are the parent's; name and size too unless they are given."""

    inherited: ClassVar[frozenset[str]] = frozenset(
        ("service_type", "storage", "storage_gbs", "volume_type", "disk_gbs", "addons")
    )

    fork_strategy: Strategy
    name: Name | UnsetType = UNSET
    region_code: ParentRegion | UnsetType = UNSET
    cpu_millis: Cpu | UnsetType = UNSET
    memory_gbs: Memory | UnsetType = UNSET
    target_time: TargetTime | UnsetType = UNSET
    environment_tag: Tag | UnsetType = UNSET
    snapshot_id: SnapshotWanted | UnsetType = UNSET
    quiet: Quiet | UnsetType = UNSET


class Logout(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ends a session; API keys have none."""

    refresh_token: Ignored | UnsetType = UNSET


class IdentifyUser(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client would tell about its user."""

    properties: Properties | UnsetType = UNSET


class TrackEvent(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client would tell about its use."""

    event: Ignored
    properties: Properties | UnsetType = UNSET
