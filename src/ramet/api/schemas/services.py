"""The schemas of services, as they are answered; what requests say is in `service_bodies`."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.lag import ServiceFollowing
from ramet.api.schemas.replica_sets import ReadReplicaSet
from ramet.api.schemas.shared import (
    ConnectionPooler,
    Endpoint,
    Identifier,
    Timestamp,
    twin_of,
)
from ramet.model.environment import Environment
from ramet.model.service_type import ServiceType
from ramet.model.status import Status
from ramet.model.wal_level import WalLevel

Password = Annotated[
    str,
    Meta(
        description="The password of tsdbadmin, in the responses to create and fork only.",
        extra_json_schema={"format": "password"},
    ),
]
Reason = Annotated[str, Meta(description="Why the service is UNSTABLE.")]
StrategyUsed = Annotated[str, Meta(description="Of a fork: the strategy that it was created with.")]
TargetUsed = Annotated[str, Meta(description="Of a PITR fork: the target as written in the request.")]
DataTime = Annotated[datetime, Meta(tz=True, description="Of a fork: the time that its data is from, once known.")]
SnapshotUsed = Annotated[str, Meta(description="Of a fork: the parent's snapshot that it was restored from.")]
ProvenRestore = Annotated[
    datetime, Meta(tz=True, description="The newest time to which a restore drill has recovered the service.")
]
RestoreWarning = Annotated[str, Meta(description="Why the service may not be restorable.")]
ArchivedUntil = Annotated[
    datetime, Meta(tz=True, description="What was committed before this time is in the off-host archive.")
]
ArchiveWarning = Annotated[str, Meta(description="Why the off-host archive is not up to date, or cannot be restored.")]
ProvenArchiveRestore = Annotated[
    datetime,
    Meta(tz=True, description="The newest time to which a restore drill recovered from the off-host archive."),
]
StorageWarning = Annotated[str, Meta(description="Why sessions are read-only now: the storage is nearly full.")]
WalLevelShown = Annotated[WalLevel, Meta(description="The wal_level of the server; absent if it is replica.")]
Expiry = Annotated[datetime, Meta(tz=True, description="When the service expires; absent if it does not by time.")]
TtlShown = Annotated[int, Meta(description="The seconds that its life span was granted for.")]
IdleTtlShown = Annotated[int, Meta(description="After so many seconds without a client's session it expires.")]
IdleExpiry = Annotated[datetime, Meta(tz=True, description="When it expires unless a client connects before.")]
ExpiryWarning = Annotated[str, Meta(description="When the service will be deleted, once that is near.")]
ProtectedShown = Annotated[
    bool, Meta(description="Whether the service cannot be deleted, reset or restored, and does not expire.")
]
LabelsShown = Annotated[dict[str, str], Meta(description="The labels of the service.")]
SleepAfterShown = Annotated[int, Meta(description="After so many seconds without a client's session it falls asleep.")]
Sleeping = Annotated[
    bool, Meta(description="Whether its server is stopped until a client connects; its status is READY all the same.")
]
EarlierHosts = Annotated[
    tuple[str, ...],
    Meta(description="The hosts that its endpoint had before, newest first; its certificate is valid for them, too."),
]
WarmForksKept = Annotated[int, Meta(description="How many forks of its newest state the service keeps ready.")]
Followed = Annotated[ServiceFollowing, Meta(description="Of a service that follows a database elsewhere.")]
ParentName = Annotated[str, Meta(description="Of a fork: its parent's name when it was forked.")]


class VpcEndpoint(Struct, frozen=True):
    """An address inside a private network; no backend offers one."""

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
    """How many replicas take over when the primary fails, and how many of them confirm each commit."""

    sync_replica_count: int
    replica_count: int


OwnStorage = Annotated[
    int,
    Meta(
        description="The part of `storage_mb` that only this service occupies, in megabytes: what it shares with its"
        " parent, its forks or its snapshots does not count. It is measured from time to time."
    ),
]


class ServiceMetrics(Struct, frozen=True, omit_defaults=True):
    """What a service uses now. `own_storage_mb` is absent where it is not known."""

    memory_mb: int | None
    storage_mb: int | None
    milli_cpu: int | None
    own_storage_mb: OwnStorage | None = None


PgMajor = Annotated[int, Meta(description="The PostgreSQL major version, such as 18.")]


class ServiceMetadata(Struct, frozen=True, gc=False, omit_defaults=True):
    """Further properties of a service. Those that do not apply are absent."""

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
    archived_until: ArchivedUntil | None = None
    archive_warning: ArchiveWarning | None = None
    last_proven_archive_restore: ProvenArchiveRestore | None = None
    wal_level: WalLevelShown = WalLevel.REPLICA
    pg_major: PgMajor | None = None
    following: Followed | None = None
    expires_at: Expiry | None = None
    ttl_seconds: TtlShown | None = None
    idle_ttl_seconds: IdleTtlShown | None = None
    idle_expires_at: IdleExpiry | None = None
    expiry_warning: ExpiryWarning | None = None
    protected: ProtectedShown = False
    labels: LabelsShown = {}
    sleep_after_seconds: SleepAfterShown | None = None
    sleeping: Sleeping = False
    earlier_hosts: EarlierHosts = ()
    warm_forks: WarmForksKept | None = None


class Service(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A PostgreSQL service. What does not apply is absent; only what makes a service returns its `initial_password`."""

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


class ExtensionUpdate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An extension of a database whose version was not the installed one."""

    database: str
    extension: str
    from_version: str
    to_version: str
    problem: Annotated[str, Meta(description="Why it was not updated.")] | None = None
