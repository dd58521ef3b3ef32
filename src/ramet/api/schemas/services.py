"""The schemas of services and of changes to them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.replica_sets import ReadReplicaSet
from ramet.api.schemas.shared import (
    Body,
    ConnectionPooler,
    Cpu,
    Endpoint,
    EnvironmentName,
    Identifier,
    Memory,
    Name,
    Tag,
    Timestamp,
    twin_of,
)
from ramet.model.service import Environment, ServiceType
from ramet.model.status import Status

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


Region = Annotated[str, Meta(description="The region code of this host as a string; may be left out.")]


ReplicaCount = Annotated[int, Meta(description="The integer 0, since one host has no high availability.")]


class VpcEndpoint(Struct, frozen=True):
    """An address inside a private network; no backend has one yet."""

    host: str
    port: int
    vpc_id: str


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


class ServiceMetrics(Struct, frozen=True):
    """What a service uses now."""

    memory_mb: int | None
    storage_mb: int | None
    milli_cpu: int | None


class ServiceMetadata(Struct, frozen=True, gc=False, omit_defaults=True):
    """More about a service. What does not apply is left out."""

    environment: Environment
    status_reason: Reason | None = None
    fork_strategy: StrategyUsed | None = None
    target_time: TargetUsed | None = None
    data_time: DataTime | None = None
    snapshot_id: SnapshotUsed | None = None
    parent_name: ParentName | None = None
    last_proven_restore: ProvenRestore | None = None
    restore_warning: RestoreWarning | None = None
    storage_warning: StorageWarning | None = None


class Service(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A PostgreSQL service. What does not apply is absent. Only answers to create and fork have `initial_password`."""

    service_id: Identifier
    project_id: str
    name: str
    region_code: str
    service_type: ServiceType
    created: Timestamp
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
    initial_password: Password | None = None


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


class ServiceCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new, empty service. Without a size it is a shared one."""

    name: Name
    addons: Annotated[list[Addon], Meta(description="An array of 'time-series' and 'ai'.")] | None = None
    service_type: (
        Annotated[
            ServiceTypeWanted,
            Meta(
                description="One of TIMESERIESDB (or TIMESCALEDB, which is the same), POSTGRES, VECTOR;"
                " takes precedence over addons."
            ),
        ]
        | None
    ) = None
    region_code: Region | None = None
    replica_count: ReplicaCount | None = None
    cpu_millis: Cpu | None = None
    memory_gbs: Memory | None = None
    environment_tag: Tag | None = None


NewPassword = Annotated[
    str, Meta(description="A string of 1 to 1000 printable characters.", extra_json_schema={"format": "password"})
]


Count = Annotated[
    int, Meta(description="The integer 0, since one host has no high availability.", extra_json_schema={"minimum": 0})
]


class ServiceRename(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another name for a service."""

    name: Name


class ExtensionsInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which extensions of a service to update."""

    extension: Annotated[str, Meta(description="The name of one extension; without it, all.")] | None = None


class ExtensionUpdate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An extension of a database that was not at the version that is installed."""

    database: str
    extension: str
    from_version: str
    to_version: str
    problem: Annotated[str, Meta(description="A sentence: why it stays at its version.")] | None = None


class ResizeInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another size for a service."""

    cpu_millis: Cpu
    memory_gbs: Memory


class UpdatePasswordInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another password for the admin of a service."""

    password: NewPassword


class SetEnvironmentInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is at stake from now on."""

    environment: EnvironmentName


class SetHAReplicaInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many high-availability replicas a service is to have."""

    sync_replica_count: Count | None = None
    replica_count: Count | None = None
