"""The documents about the archive and recovery from it: pure functions, as those of `manifests`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ramet.backends.kubernetes import names
from ramet.backends.kubernetes.site import Site
from ramet.backends.kubernetes.store_access import StoreAccess

PLUGIN = "barman-cloud.cloudnative-pg.io"
WAL_DIRECTORY, VOLUME_DIRECTORY = "/wal", "/volume"
_POSTGRES_USER = 26
_READER_SECONDS = 3600
# While it is there the volume may be attached to its node, where the server cannot always start.
_VOLUME_READER_SECONDS = 300
# Of the segments that `recovery_point` reads at a time, with those of two records, which may have 1 GiB each.
_WAL_LIMIT = "2304Mi"


@dataclass(frozen=True)
class Recovery:
    """What the operator makes a fork of: a VolumeSnapshot or a base backup, and the WAL below an archive's name.

    `lsn` is the record to stop at: after it, or before it with `exclusive`. None: the end of the archived WAL; without
    an `archived_as` the snapshot as it is. It is never a time: PostgreSQL would replay all before the next end of a
    transaction, and CloudNativePG makes of a time with a Z one that PostgreSQL refuses. `facts` are noted with the
    Cluster.
    """

    archived_as: str | None = None
    snapshot: str | None = None
    base_backup_id: str | None = None
    lsn: str | None = None
    exclusive: bool = False
    facts: str = ""

    def bootstrap(self, owned: Mapping[str, str]) -> dict[str, Any]:
        """Return the part of a Cluster; `owned` names a database that is there."""
        found: dict[str, Any] = dict(owned)
        if self.snapshot is not None:
            named = {"kind": "VolumeSnapshot", "apiGroup": names.SNAPSHOT_GROUP, "name": self.snapshot}
            found["volumeSnapshots"] = {"storage": named}
        if self.archived_as is None:
            return {"bootstrap": {"recovery": found}}
        # Without a source, a target is ignored.
        found["source"] = names.ORIGIN
        if target := self._target():
            found["recoveryTarget"] = target
        origin = {"name": names.ORIGIN, "plugin": plugin(self.archived_as)}
        return {"bootstrap": {"recovery": found}, "externalClusters": [origin]}

    def _target(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.base_backup_id is not None:
            found["backupID"] = self.base_backup_id
        if self.lsn is not None:
            found |= {"targetLSN": self.lsn, "exclusive": self.exclusive}
        return found


def plugin(archived_as: str) -> dict[str, Any]:
    """Return the plugin with the name that a service has in the archive: each has its own, also every fork."""
    return {"name": PLUGIN, "parameters": {"barmanObjectName": names.ARCHIVE, "serverName": archived_as}}


def object_store(access: StoreAccess) -> dict[str, Any]:
    """Return the object store of a namespace."""
    s3: dict[str, Any] = {"inheritFromIAMRole": True}
    if access.key_id is not None:
        s3 = {"accessKeyId": _of_secret("id"), "secretAccessKey": _of_secret("key")}
        s3 |= {"region": _of_secret("region")} if access.region else {}
    configuration: dict[str, Any] = {
        "destinationPath": access.url,
        "s3Credentials": s3,
        "wal": {"compression": "gzip"},
        "data": {"compression": "gzip", "immediateCheckpoint": True},
    }
    if access.endpoint:
        configuration["endpointURL"] = access.endpoint
    return {
        "apiVersion": "barmancloud.cnpg.io/v1",
        "kind": "ObjectStore",
        "metadata": {"name": names.ARCHIVE},
        "spec": {"configuration": configuration},
    }


def store_keys(access: StoreAccess) -> dict[str, Any] | None:
    """Return the Secret with the keys of the object store; None where pods have a role instead."""
    if access.key_id is None or access.key is None:
        return None
    values = {"id": access.key_id.reveal(), "key": access.key.reveal()}
    values |= {"region": access.region} if access.region else {}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": names.ARCHIVE}, "stringData": values}


def base_backup(service_id: str, mark: str) -> dict[str, Any]:
    """Return what asks for a base backup of a service."""
    return {
        "apiVersion": "postgresql.cnpg.io/v1",
        "kind": "Backup",
        "metadata": {"name": names.backup_name(service_id, mark), "labels": names.labels_of(service_id)},
        "spec": {
            "cluster": {"name": names.cluster_name(service_id)},
            "method": "plugin",
            "pluginConfiguration": {"name": PLUGIN},
        },
    }


def wal_reader(child_id: str, pg_major: int, site: Site) -> dict[str, Any]:
    """Return the pod that reads WAL for a fork: PostgreSQL's programs, a directory, no rights, and an end."""
    mount, name = {"name": "wal", "mountPath": WAL_DIRECTORY}, names.reader_name(child_id)
    pod = _reader(child_id, name, pg_major, site, mount, {"emptyDir": {"sizeLimit": _WAL_LIMIT}})
    pod["spec"]["securityContext"]["fsGroup"] = _POSTGRES_USER
    return pod


def wal_notes(child_id: str, noted: Mapping[str, str]) -> dict[str, Any]:
    """Return what the pods that read WAL for a fork have found, one after the other."""
    metadata = {"name": names.reader_name(child_id), "labels": names.labels_of(child_id)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(noted)}


def volume_reader(reader_id: str, mark: str, service_id: str, pg_major: int, site: Site, volume: str) -> dict[str, Any]:
    """Return a pod that reads the volume of a stopped server, for its service or a fork of that."""
    mount = {"name": "data", "mountPath": VOLUME_DIRECTORY, "readOnly": True}
    name, claim = names.volume_reader_name(reader_id, mark), {"persistentVolumeClaim": {"claimName": volume}}
    pod = _reader(reader_id, name, pg_major, site, mount, claim, _VOLUME_READER_SECONDS)
    pod["metadata"]["labels"][names.VOLUME_LABEL] = service_id
    return pod


def _reader(
    service_id: str,
    name: str,
    pg_major: int,
    site: Site,
    mount: Mapping[str, Any],
    volume: Mapping[str, Any],
    seconds: int = _READER_SECONDS,
) -> dict[str, Any]:
    container = {
        "name": names.CONTAINER,
        "image": site.image_of(pg_major),
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", str(seconds)],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [dict(mount)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": names.labels_of(service_id)},
        "spec": {
            "activeDeadlineSeconds": seconds,
            "automountServiceAccountToken": False,
            "containers": [container],
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _POSTGRES_USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": mount["name"], **volume}],
        },
    }


def _of_secret(key: str) -> dict[str, str]:
    return {"name": names.ARCHIVE, "key": key}
