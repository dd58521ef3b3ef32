"""The documents that Ramet applies, in the namespace of each: pure functions of a service and its site."""

import ipaddress
import math
from collections.abc import Mapping
from typing import Any

from lightkube.utils.quantity import parse_quantity

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import availability, configuration, names
from ramet.backends.kubernetes.archive_manifests import Recovery, plugin
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.kubernetes.exposure import service_of
from ramet.backends.kubernetes.site import GIB, Forks, Site
from ramet.backends.kubernetes.streaming import Copy
from ramet.backends.kubernetes.traits import Traits
from ramet.backends.local.sql.connections import DATABASE, PLATFORM_ROLE
from ramet.endpoints import pooler_host
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from ramet.model.upstream import Upstream

Manifest = Mapping[str, Any]
_PLAIN = Traits()
_ROOM_FACTOR = 1.5
# A failing probe ends a server: one that recovers much WAL needs an hour.
_PROBES = {"startup": {"periodSeconds": 1, "failureThreshold": 3600}, "readiness": {"periodSeconds": 1}}


def cluster(
    server: Server,
    site: Site,
    phase: Phase,
    *,
    first: bool = False,
    asleep: bool = False,
    volume_size: str | None = None,
    recovery: Recovery | Copy | None = None,
    traits: Traits = _PLAIN,
) -> Manifest:
    """Return the Cluster of a service: each instance on one volume, so that one snapshot has all of it at one moment.

    With `first` it is that of a fork's first start. `asleep` stops its server. `volume_size` is that of a volume
    that is there already. Standbys have a volume each. With `recovery` the operator makes its data of a snapshot or
    base backup and archived WAL, or of a copy; once that is done the manifest says so no more, because what it names
    is deleted some day.
    """
    annotations = _annotations(traits, recovery, first=first, asleep=asleep)
    own = _metadata(server.service_id, names.cluster_name(server.service_id), annotations)
    return {
        "apiVersion": "postgresql.cnpg.io/v1",
        "kind": "Cluster",
        "metadata": own,
        "spec": {
            "imageName": site.image_of(server.pg_major),
            "imagePullPolicy": "IfNotPresent",
            "inheritedMetadata": {"labels": _inherited(server)},
            "enableSuperuserAccess": False,
            "storage": _storage(site, volume_size),
            **_bootstrap(recovery),
            **_followed(server, site),
            **_archiver(server, site),
            **availability.instances(server.standbys),
            "probes": _PROBES,
            "smartShutdownTimeout": 1,
            "stopDelay": 120,
            "postgresql": {
                "parameters": configuration.parameters(server, first=first, traits=traits),
                "pg_hba": configuration.pg_hba(phase, admits_copy=traits.admits_copy),
                "pg_ident": configuration.pg_ident(),
                **_libraries(server),
                **availability.synchronous(server.standbys),
            },
            "managed": {"services": {"disabledDefaultServices": ["r", "ro"]}},
            **availability.certificates(_server_names(server), server.primary),
            "resources": resources_of(server.size),
        },
    }


def _annotations(traits: Traits, recovery: Recovery | Copy | None, *, first: bool, asleep: bool) -> dict[str, str]:
    found = {names.HIBERNATION: "on" if asleep else "off", **traits.annotations}
    if first:
        found[names.FIRST_ANNOTATION] = "true"
    if recovery is not None:
        found[names.CAPTURE_ANNOTATION] = recovery.facts
    return found


def _followed(server: Server, site: Site) -> dict[str, Any]:
    if server.upstream is not None:
        return availability.following_source(server.service_id, server.upstream)
    if server.primary is None:
        return {}
    return availability.following(server.service_id, server.primary, copies=site.forks is Forks.COPY)


def _bootstrap(recovery: Recovery | Copy | None) -> dict[str, Any]:
    owned = {"database": DATABASE, "owner": PLATFORM_ROLE}
    if recovery is not None:
        return recovery.bootstrap(owned)
    # Of a fork only the names count: its volume is there, so nothing is initialized.
    return {"bootstrap": {"initdb": {**owned, "dataChecksums": True}}}


def source_access(service_id: str, upstream: Upstream, password: Secret, traits: Traits) -> Manifest:
    """Return the Secret by which a service streams from its source."""
    values = {"password": password.reveal()}
    values |= {} if upstream.root_certificate is None else {"ca.crt": upstream.root_certificate}
    metadata = _metadata(service_id, names.source_name(service_id), traits.annotations)
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}


def _archiver(server: Server, site: Site) -> dict[str, Any]:
    """Return the part by which a service archives; a replica has nothing that its primary does not archive."""
    if site.archive is None or server.primary is not None:
        return {}
    return {"plugins": [{**plugin(server.archive_name), "isWALArchiver": True}]}


def endpoint(server: Server, site: Site, *, had_standbys: bool = False) -> Manifest:
    """Return the Service that clients connect to: it leads to the primary, or to all servers of a replica set.

    A pod is labelled as the primary some seconds after it began to serve. A service that never had standbys has no
    other pod that could be meant, so its Service leads there at once.
    """
    owner, port = owner_of(server), server.port
    selector = {names.CLUSTER_LABEL: names.cluster_name(owner), names.ROLE_LABEL: "primary"}
    is_single = server.primary is None and not server.standbys.count and not had_standbys
    if is_single:
        selector = {names.CLUSTER_LABEL: names.cluster_name(owner), names.POD_LABEL: "instance"}
    if server.primary is not None:
        port = server.primary.set_port
        selector = {names.SET_LABEL: owner, names.ROLE_LABEL: "primary"}
    own = _metadata(owner, names.cluster_name(owner))
    return service_of(own, site, port, server.host, selector, leads_at_once=is_single)


def larger_size(requested: str, site: Site) -> str:
    """Return the size of new volumes if it is larger than the one that a volume has, which is returned otherwise."""
    has, wanted = parse_quantity(requested), site.volume_gbs * GIB
    return requested if has is None or has >= wanted else f"{site.volume_gbs}Gi"


def size_for(size_bytes: int, site: Site, at_least: str | None = None) -> str:
    """Return the size of a new volume for so much data, and for half as much again.

    It has `at_least` what the snapshot needs that it is made of: storage refuses a smaller one.
    """
    wanted, needed = max(site.volume_gbs, math.ceil(size_bytes * _ROOM_FACTOR / GIB)), parse_quantity(at_least)
    return f"{wanted}Gi" if at_least is None or needed is None or needed <= wanted * GIB else at_least


def owner_of(server: Server) -> str:
    """Return the id of the service, or of the read replica set, whose endpoint leads to a server."""
    return server.service_id if server.primary is None else server.primary.set_id


def snapshot(
    service_id: str,
    site: Site,
    name: str,
    volume: str,
    snapshot_id: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """Return a VolumeSnapshot that belongs to `service_id`, of a volume that may be another one's."""
    metadata = _metadata(service_id, name, annotations)
    if snapshot_id is not None:
        metadata["labels"][names.SNAPSHOT_LABEL] = snapshot_id
    spec: dict[str, Any] = {"source": {"persistentVolumeClaimName": volume}}
    if site.snapshot_class:
        spec["volumeSnapshotClassName"] = site.snapshot_class
    return {"apiVersion": f"{names.SNAPSHOT_GROUP}/v1", "kind": "VolumeSnapshot", "metadata": metadata, "spec": spec}


def adopted_volume(service_id: str, site: Site, snapshot_name: str, volume_size: str) -> Manifest:
    """Return a volume that is made of a snapshot, with the marks by which the operator adopts it for a new Cluster.

    Then no job copies or initializes anything (CloudNativePG 1.30, internal/controller/cluster_restore.go).
    """
    name = names.volume_name(service_id)
    metadata = _metadata(service_id, name, {"cnpg.io/nodeSerial": "1", "cnpg.io/pvcStatus": "ready"})
    metadata["labels"] |= {
        names.CLUSTER_LABEL: names.cluster_name(service_id),
        "cnpg.io/instanceName": name,
        "cnpg.io/pvcRole": "PG_DATA",
        names.ROLE_LABEL: "primary",
        "role": "primary",
    }
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": volume_size}},
        "dataSource": {"apiGroup": names.SNAPSHOT_GROUP, "kind": "VolumeSnapshot", "name": snapshot_name},
    }
    if site.storage_class:
        spec["storageClassName"] = site.storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _metadata(service_id: str, name: str, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "labels": names.labels_of(service_id)}
    return {**found, "annotations": dict(annotations)} if annotations else found


def _storage(site: Site, volume_size: str | None) -> dict[str, str]:
    size = volume_size or f"{site.volume_gbs}Gi"
    return {"size": size, **({"storageClass": site.storage_class} if site.storage_class else {})}


def _libraries(server: Server) -> dict[str, Any]:
    if server.service_type is ServiceType.TIMESERIESDB:
        return {"shared_preload_libraries": ["timescaledb"]}
    return {}


def _inherited(server: Server) -> dict[str, str]:
    labels = names.labels_of(server.service_id)
    return labels if server.primary is None else {**labels, names.SET_LABEL: server.primary.set_id}


def _server_names(server: Server) -> list[str]:
    """Return the names of endpoint and pooler for the server's certificate, which cannot have addresses."""
    if is_address(server.host):
        return []
    return list(dict.fromkeys([server.host, pooler_host(server.host, owner_of(server))]))


def is_address(host: str) -> bool:
    """Tell whether a host is an address, and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def resources_of(size: Size) -> Manifest:
    """Return what each instance of a service of a size gets."""
    if size.cpu_millis is None:
        return {"requests": {"cpu": "10m", "memory": "128Mi"}}
    wanted = {"cpu": f"{size.cpu_millis}m", "memory": f"{size.memory_gbs}Gi"}
    return {"requests": wanted, "limits": wanted}
