"""Filling the shapes of answers from the model's values. Pure; it is on the hot way of every listing."""

from datetime import datetime

from msgspec import UNSET, UnsetType

from ramet.api.schemas import projects as projects_schemas
from ramet.api.schemas import services as schemas
from ramet.api.schemas.account import AuthInfo, AuthInfoApiKey, AuthInfoIssuingUser, AuthInfoProject
from ramet.api.schemas.replica_sets import ReadReplicaSet, ReplicaSetMetadata
from ramet.api.schemas.services import ForkedFrom, HaReplicas, Resource, ResourceSpec, ServiceMetadata, ServiceMetrics
from ramet.api.schemas.shared import ConnectionPooler, Endpoint
from ramet.model.credentials import Secret
from ramet.model.metrics import Usage
from ramet.model.project import ApiKey, Project
from ramet.model.replica import ReplicaSet, replica_status, replica_status_reason
from ramet.model.service import Origin, Service, restore_warning, status_of, status_reason
from ramet.model.status import Status

_NO_REPLICAS = HaReplicas(0, 0)
_ForkMetadata = tuple[str | UnsetType, str | UnsetType, datetime | UnsetType, str | UnsetType, str | UnsetType]
_NO_FORK: _ForkMetadata = (UNSET, UNSET, UNSET, UNSET, UNSET)


def service_shape(
    service: Service, initial_password: Secret | None = None, usage: Usage | None = None
) -> schemas.Service:
    """Return what clients see of a service; the password stands in the answers to create and fork only."""
    size, status = service.size, status_of(service)
    return schemas.Service(
        service_id=service.id,
        project_id=service.project_id,
        name=service.name,
        region_code=service.region_code,
        service_type=service.service_type,
        created=service.created_at,
        paused=service.paused,
        status=status,
        resources=[Resource(service.id, ResourceSpec(size.cpu_millis, size.memory_gbs, service.volume_type))],
        metadata=_metadata(service, status),
        endpoint=Endpoint(service.host, service.port),
        forked_from=_parent(service.origin),
        ha_replicas=_NO_REPLICAS,
        connection_pooler=_pooler(service.host, service.pooler_port),
        read_replica_sets=[replica_set_shape(each) for each in service.replica_sets],
        metrics=_metrics(usage, status),
        initial_password=UNSET if initial_password is None else initial_password.reveal(),
    )


def _metrics(usage: Usage | None, status: Status) -> ServiceMetrics | None:
    if usage is None or status is Status.PAUSED:
        return None
    return ServiceMetrics(usage.memory_mb, usage.storage_mb, usage.cpu_millis)


def replica_set_shape(replica_set: ReplicaSet) -> ReadReplicaSet:
    """Return what clients see of a read replica set."""
    size, reason = replica_set.size, replica_status_reason(replica_set)
    return ReadReplicaSet(
        id=replica_set.id,
        name=replica_set.name,
        status=replica_status(replica_set),
        nodes=len(replica_set.nodes),
        cpu_millis=size.cpu_millis or 0,
        memory_gbs=size.memory_gbs or 0,
        metadata=ReplicaSetMetadata(replica_set.environment, UNSET if reason is None else reason),
        endpoint=Endpoint(replica_set.host, replica_set.port),
        connection_pooler=_pooler(replica_set.host, replica_set.pooler_port),
    )


def _parent(origin: Origin | None) -> ForkedFrom | None:
    return None if origin is None else ForkedFrom(origin.project_id, origin.service_id, origin.is_standby)


def _pooler(host: str, port: int | None) -> ConnectionPooler | None:
    return None if port is None else ConnectionPooler(Endpoint(host, port))


def _metadata(service: Service, status: Status) -> ServiceMetadata:
    origin, warning = service.origin, restore_warning(service)
    reason = status_reason(service) if status is Status.UNSTABLE else None
    return ServiceMetadata(
        service.environment,
        UNSET if reason is None else reason,
        *(_NO_FORK if origin is None or origin.is_standby else _fork_metadata(origin)),
        UNSET if service.last_verified_at is None else service.last_verified_at,
        UNSET if warning is None else warning,
        UNSET if service.storage_warning is None else service.storage_warning,
    )


def _fork_metadata(origin: Origin) -> _ForkMetadata:
    return (
        origin.strategy,
        UNSET if origin.target_time is None else origin.target_time,
        UNSET if origin.data_time is None else origin.data_time,
        UNSET if origin.snapshot_id is None else origin.snapshot_id,
        origin.name,
    )


def project_shape(project: Project) -> projects_schemas.Project:
    """Return what clients see of a project."""
    return projects_schemas.Project(project.id, project.name)


def auth_info_shape(key: ApiKey, project: Project) -> AuthInfo:
    """Return what clients learn of the key they use. The key stands for its holder: Ramet has no users."""
    holder = AuthInfoIssuingUser(key.public_key, key.name, f"{key.public_key.lower()}@keys.ramet.invalid")
    shape = AuthInfoApiKey(
        public_key=key.public_key,
        name=key.name,
        created=key.created_at,
        project=AuthInfoProject(project.id, project.name, "self-hosted"),
        issuing_user=holder,
    )
    return AuthInfo("apiKey", shape, shape)
