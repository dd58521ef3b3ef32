"""The few fields that are read of objects in Kubernetes."""

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from lightkube.core.resource import ApiInfo, GlobalResource, NamespacedResourceG, ResourceDef
from lightkube.utils.quantity import parse_quantity
from msgspec import Struct, field

from ramet.model.high_availability import Standbys
from ramet.model.progress import with_warning

_Struct = TypeVar("_Struct", bound=Struct)
_VERBS = ["delete", "get", "global_list", "global_watch", "list", "patch", "watch"]
_PULLS = ("ErrImagePull", "ImagePullBackOff")


def _resource(group: str, version: str, kind: str, plural: str) -> Callable[[type[_Struct]], type[_Struct]]:
    """Return a decorator that says under which name the API server has objects of a class."""

    def name(found: type[_Struct]) -> type[_Struct]:
        setattr(found, "_api_info", ApiInfo(ResourceDef(group, version, kind), plural, _VERBS))  # noqa: B010 - lightkube's
        return found

    return name


class Metadata(Struct, frozen=True):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    resourceVersion: str | None = None  # noqa: N815 - lightkube reads it by this name
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deleted_at: str | None = field(name="deletionTimestamp", default=None)


class _Named(Struct, NamespacedResourceG, frozen=True):
    """An object of a namespace."""

    metadata: Metadata


class Condition(Struct, frozen=True):
    """A condition of an object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class ClusterStatus(Struct, frozen=True, rename="camel"):
    """What the operator says of a Cluster."""

    phase: str = ""
    phase_reason: str = ""
    current_primary: str = ""
    instances: int = 0
    ready_instances: int = 0
    conditions: list[Condition] = []


class ClusterPostgresql(Struct, frozen=True):
    """What a Cluster is asked to set in PostgreSQL."""

    parameters: dict[str, Any] = {}
    synchronous: dict[str, Any] = {}


class ClusterSpec(Struct, frozen=True):
    """What a Cluster is asked to be."""

    instances: int = 1
    postgresql: ClusterPostgresql = ClusterPostgresql()
    resources: dict[str, Any] = {}


@_resource("postgresql.cnpg.io", "v1", "Cluster", "clusters")
class Cluster(_Named, frozen=True):
    """A Cluster of CloudNativePG."""

    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()

    @property
    def is_asleep(self) -> bool:
        """Whether it was asked to stop its server."""
        return self.metadata.annotations.get("cnpg.io/hibernation") == "on"

    def has(self, standbys: Standbys) -> bool:
        """Whether these standbys were asked for."""
        synchronous = self.spec.postgresql.synchronous.get("number", 0)
        return (self.spec.instances - 1, synchronous) == (standbys.count, standbys.synchronous)

    def fits(self, resources: Mapping[str, Any], wal_level: str) -> bool:
        """Whether these requests and limits, and this wal_level, were asked for."""
        has_level = self.spec.postgresql.parameters.get("wal_level") == wal_level
        return has_level and _amounts(self.spec.resources) == _amounts(resources)

    @property
    def is_hibernated(self) -> bool:
        """Whether its server is stopped. Its phase does not say so."""
        return any(one.type == "cnpg.io/hibernation" and one.status == "True" for one in self.status.conditions)


class ContainerStatus(Struct, frozen=True, rename="camel"):
    """The state of a container: under `running`, `waiting` or `terminated` is what is known of it."""

    name: str
    ready: bool = False
    state: dict[str, dict[str, Any]] = {}


class PodStatus(Struct, frozen=True, rename="camel"):
    """The state of a pod."""

    phase: str = ""
    pod_ip: str = field(name="podIP", default="")
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class Container(Struct, frozen=True):
    """What a container was made with."""

    name: str
    resources: dict[str, Any] = {}


class PodSpec(Struct, frozen=True):
    """What a pod was made with."""

    containers: list[Container] = []


@_resource("", "v1", "Pod", "pods")
class Pod(_Named, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Whether Services lead to it."""
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)

    def has_resources(self, wanted: Mapping[str, Any]) -> bool:
        """Whether PostgreSQL's container was made with these requests and limits, and perhaps a LimitRange's too."""
        found = [one.resources for one in self.spec.containers if one.name == "postgres"]
        return any(_amounts(wanted).items() <= _amounts(one).items() for one in found)

    @property
    def runs(self) -> bool:
        """Whether its PostgreSQL container runs, so that programs can be run in it."""
        found = [one for one in self.status.container_statuses if one.name == "postgres"]
        return self.metadata.deleted_at is None and any("running" in one.state for one in found)

    @property
    def has_ended(self) -> bool:
        """Whether none of its containers runs any more, or will."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def progress(self) -> str:
        """How far its start is, with the reason that a container waits for."""
        found = [*self.status.init_container_statuses, *self.status.container_statuses]
        states = (f"{one.name} {_state(one)}" for one in found)
        waits = (one.message for one in self.status.conditions if one.type == "PodScheduled" and one.message)
        said = f"{self.metadata.name} is {self.status.phase or 'new'}: " + ", ".join([*waits, *states])
        return with_warning(said, "; ".join(filter(None, map(_pull_error, found))))


def _amounts(resources: Mapping[str, Any]) -> dict[tuple[str, str], object]:
    """Return requests and limits as numbers: Kubernetes writes 1000m as 1."""
    kinds = ("requests", "limits")
    return {(kind, name): parse_quantity(text) for kind in kinds for name, text in resources.get(kind, {}).items()}


def _state(container: ContainerStatus) -> str:
    """Return the state of a container; why its image cannot be pulled is said apart."""
    for state, facts in container.state.items():
        reason, message = str(facts.get("reason") or state), facts.get("message")
        if reason in _PULLS:
            return "waits for its image"
        return f"{reason} ({message})" if message else reason
    return "new"


def _pull_error(container: ContainerStatus) -> str:
    """Return why the image of a container cannot be pulled; it is tried again and again, often with other words."""
    facts = container.state.get("waiting", {})
    return f"{facts['reason']}: {facts.get('message', '')}" if facts.get("reason") in _PULLS else ""


class VolumeStatus(Struct, frozen=True):
    """The state of a volume."""

    phase: str = ""


@_resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
class Volume(_Named, frozen=True):
    """A PersistentVolumeClaim."""

    spec: dict[str, Any] = {}
    status: VolumeStatus = VolumeStatus()

    @property
    def requested(self) -> str | None:
        """The size that was asked for, as Kubernetes writes it."""
        found = self.spec.get("resources", {}).get("requests", {}).get("storage")
        return None if found is None else str(found)


class SnapshotError(Struct, frozen=True):
    """Why a snapshot could not be taken."""

    message: str = ""


class SnapshotStatus(Struct, frozen=True, rename="camel"):
    """The state of a snapshot."""

    creation_time: str | None = None
    ready_to_use: bool | None = None
    restore_size: str | None = None
    error: SnapshotError | None = None


@_resource("snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots")
class VolumeSnapshot(_Named, frozen=True):
    """A snapshot of a volume."""

    spec: dict[str, Any] = {}
    status: SnapshotStatus = SnapshotStatus()


@_resource("", "v1", "Service", "services")
class Service(_Named, frozen=True):
    """A Service."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}

    @property
    def is_balanced(self) -> bool:
        """Whether its load balancer has an address."""
        return bool(self.status.get("loadBalancer", {}).get("ingress"))


@_resource("", "v1", "Secret", "secrets")
class SecretObject(_Named, frozen=True):
    """A Secret; of its contents only certificates are read."""

    data: dict[str, str] = {}

    def text(self, key: str) -> str:
        """Return what it has under a key."""
        return base64.b64decode(self.data[key]).decode()


@_resource("", "v1", "ConfigMap", "configmaps")
class ConfigMap(_Named, frozen=True):
    """A ConfigMap."""

    data: dict[str, str] = {}


@_resource("apps", "v1", "Deployment", "deployments")
class Deployment(_Named, frozen=True):
    """A Deployment: the pods of a pooler."""


@_resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
class NetworkPolicy(_Named, frozen=True):
    """A NetworkPolicy."""


@_resource("storage.k8s.io", "v1", "StorageClass", "storageclasses")
class StorageClass(Struct, GlobalResource, frozen=True):
    """A class of volumes."""

    metadata: Metadata
    provisioner: str = ""
    can_grow: bool = field(name="allowVolumeExpansion", default=False)

    def is_used(self, wanted: str) -> bool:
        """Tell whether volumes are of this class where `wanted` is set; empty: the cluster's default."""
        default = self.metadata.annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
        return self.metadata.name == wanted if wanted else default


@_resource("snapshot.storage.k8s.io", "v1", "VolumeSnapshotClass", "volumesnapshotclasses")
class SnapshotClass(Struct, GlobalResource, frozen=True):
    """A class of snapshots."""

    metadata: Metadata
    driver: str = ""


@_resource("", "v1", "Namespace", "namespaces")
class Namespace(Struct, GlobalResource, frozen=True):
    """A namespace."""

    metadata: Metadata


class NodeStatus(Struct, frozen=True):
    """What a node has for pods."""

    allocatable: dict[str, str] = {}
    info: dict[str, Any] = field(name="nodeInfo", default={})

    @property
    def architecture(self) -> str:
        """What its processors are."""
        return str(self.info.get("architecture", ""))


@_resource("", "v1", "Node", "nodes")
class Node(Struct, GlobalResource, frozen=True):
    """A node."""

    metadata: Metadata
    status: NodeStatus = NodeStatus()


class BackupStatus(Struct, frozen=True, rename="camel"):
    """How far a base backup is."""

    phase: str = ""
    error: str = ""


@_resource("postgresql.cnpg.io", "v1", "Backup", "backups")
class Backup(_Named, frozen=True):
    """A base backup of a Cluster into the object store."""

    status: BackupStatus = BackupStatus()

    @property
    def is_over(self) -> bool:
        """Whether it is complete, or has failed."""
        return self.status.phase in ("completed", "failed")


@_resource("barmancloud.cnpg.io", "v1", "ObjectStore", "objectstores")
class ObjectStore(_Named, frozen=True):
    """An object store of the Barman plugin."""


class EventSeries(Struct, frozen=True, rename="camel"):
    """How often an event was repeated."""

    last_observed_time: datetime | None = None


@_resource("", "v1", "Event", "events")
class EventObject(_Named, frozen=True, rename="camel"):
    """Something that happened to an object."""

    involved_object: dict[str, Any] = {}
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: EventSeries | None = None

    @property
    def last_at(self) -> datetime:
        """When it was seen last."""
        repeated_at = None if self.series is None else self.series.last_observed_time
        return repeated_at or self.last_timestamp or self.event_time or datetime.min.replace(tzinfo=UTC)

    def is_about(self, name: str) -> bool:
        """Tell whether it is about the object of a name, or about one that was made for that, whose name begins so."""
        return f"{self.involved_object.get('name', '')}-".startswith(f"{name}-")


Object = (
    Backup
    | Cluster
    | Pod
    | Volume
    | VolumeSnapshot
    | Service
    | SecretObject
    | ConfigMap
    | Deployment
    | NetworkPolicy
    | ObjectStore
)
