"""What clients see of services and read replica sets."""

from datetime import datetime

from ramet.api.schemas.lag import ServiceFollowing
from ramet.api.schemas.replica_sets import ReadReplicaSet, ReplicaSetMetadata
from ramet.api.schemas.services import (
    ForkedFrom,
    HaReplicas,
    Resource,
    ResourceSpec,
    Service,
    ServiceMetadata,
    ServiceMetrics,
)
from ramet.api.schemas.shared import ConnectionPooler, Endpoint
from ramet.endpoints import pooler_host
from ramet.model import service as model
from ramet.model.address import earlier_hosts_of
from ramet.model.archive import archive_warning, is_archived
from ramet.model.high_availability import Standbys, standbys_of
from ramet.model.life_span import LifeSpan
from ramet.model.metrics import Usage
from ramet.model.passwords import Secret
from ramet.model.replica_set import ReplicaSet, replica_status, replica_status_reason
from ramet.model.service import Origin, restore_warning, shown_status, status_reason
from ramet.model.status import Status
from ramet.model.upstream import Following, Upstream
from ramet.model.wal_level import wal_level_of
from ramet.model.warm_forks import pool_of

_NO_REPLICAS = HaReplicas(0, 0)
_ForkMetadata = tuple[str | None, str | None, datetime | None, str | None, str | None]
_EndMetadata = tuple[datetime | None, int | None, int | None, datetime | None, str | None]
_NO_END: _EndMetadata = (None, None, None, None, None)
_NO_FORK: _ForkMetadata = (None, None, None, None, None)


def service_shape(
    service: model.Service, initial_password: Secret | None = None, usage: Usage | None = None
) -> Service:
    """Return what clients see of a service. Pure: every listing calls it for every service."""
    size, status = service.size, shown_status(service)
    return Service(
        service_id=service.id,
        project_id=service.project_id,
        name=service.name,
        region_code=service.region_code,
        service_type=service.service_type,
        created=service.created_at,
        paused=service.paused and not service.asleep,
        status=status,
        resources=[Resource(service.id, ResourceSpec(size.cpu_millis, size.memory_gbs, service.volume_type))],
        metadata=_metadata(service, status),
        endpoint=Endpoint(service.host, service.port),
        forked_from=_parent(service.origin),
        ha_replicas=_replicas(standbys_of(service.settings)),
        connection_pooler=pooler_shape(service.host, service.pooler_port, service.id),
        read_replica_sets=[replica_set_shape(each) for each in service.replica_sets],
        metrics=metrics_shape(usage, is_paused=status is Status.PAUSED),
        initial_password=None if initial_password is None else initial_password.reveal(),
    )


def metrics_shape(usage: Usage | None, *, is_paused: bool) -> ServiceMetrics | None:
    """Return what clients see of the usage of a service."""
    if usage is None:
        return None
    own_mb = None if usage.own_bytes is None else (usage.own_bytes + 500_000) // 1_000_000
    if is_paused:
        return None if own_mb is None else ServiceMetrics(None, None, None, own_mb)
    return ServiceMetrics(usage.memory_mb, usage.storage_mb, usage.cpu_millis, own_mb)


def _replicas(standbys: Standbys) -> HaReplicas:
    return HaReplicas(standbys.synchronous, standbys.count) if standbys.count else _NO_REPLICAS


def _parent(origin: Origin | None) -> ForkedFrom | None:
    return None if origin is None else ForkedFrom(origin.project_id, origin.service_id, origin.is_standby)


def _metadata(service: model.Service, status: Status) -> ServiceMetadata:
    origin = service.origin
    return ServiceMetadata(
        service.environment,
        status_reason(service) if status is Status.UNSTABLE else None,
        *(_NO_FORK if origin is None or origin.is_standby else _fork_metadata(origin)),
        service.last_verified_at,
        restore_warning(service),
        service.storage_warning,
        service.archived_until if is_archived(service) else None,
        archive_warning(service),
        service.archive_verified_at,
        wal_level_of(service.settings),
        service.pg_major,
        None if service.upstream is None else _following(service.upstream, service.following),
        *(_NO_END if service.life_span is None else _end(service.life_span)),
        service.protected,
        service.labels,
        service.sleep_after_seconds,
        service.asleep,
        earlier_hosts_of(service.settings),
        _warm_forks(service),
    )


def _warm_forks(service: model.Service) -> int | None:
    pool = pool_of(service)
    return None if pool is None else pool.size


def _end(span: LifeSpan) -> _EndMetadata:
    return span.expires_at, span.ttl_seconds, span.idle_ttl_seconds, span.idle_expires_at, span.warning


def _following(upstream: Upstream, seen: Following | None) -> ServiceFollowing:
    if seen is None:
        return ServiceFollowing(str(upstream), upstream.method)
    return ServiceFollowing(
        str(upstream),
        upstream.method,
        seen.observed_at,
        seen.lag_bytes,
        seen.lag_seconds,
        seen.complete_until,
        seen.replayed_lsn,
        seen.problem,
    )


def _fork_metadata(origin: Origin) -> _ForkMetadata:
    return origin.strategy, origin.target_time, origin.data_time, origin.snapshot_id, origin.name


def replica_set_shape(replica_set: ReplicaSet) -> ReadReplicaSet:
    """Return what clients see of a read replica set."""
    size = replica_set.size
    return ReadReplicaSet(
        id=replica_set.id,
        name=replica_set.name,
        status=replica_status(replica_set),
        nodes=len(replica_set.nodes),
        cpu_millis=size.cpu_millis or 0,
        memory_gbs=size.memory_gbs or 0,
        metadata=ReplicaSetMetadata(replica_set.environment, replica_status_reason(replica_set)),
        endpoint=Endpoint(replica_set.host, replica_set.port),
        connection_pooler=pooler_shape(replica_set.host, replica_set.pooler_port, replica_set.id),
    )


def pooler_shape(host: str, port: int | None, owner_id: str) -> ConnectionPooler | None:
    """Return where clients find the pooler of a service or replica set at `host`; None without a port."""
    return None if port is None else ConnectionPooler(Endpoint(pooler_host(host, owner_id), port))
