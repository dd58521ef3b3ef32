"""The cluster of script/kubernetes has what a backend needs: PostgreSQL, snapshots, clones, poolers, an archive."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from harness.kubernetes import images
from harness.kubernetes.contents import SNAPSHOT_CLASS, STORAGE_CLASS, apply, kubectl
from harness.kubernetes.layout import NODE, S3_BUCKET, S3_ENDPOINT, S3_KEY, S3_SECRET
from harness.kubernetes.objects import get, namespace, secret, wait_for
from harness.waiting import eventually

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]
_PLUGIN = "barman-cloud.cloudnative-pg.io"
_SNAPSHOTS = "snapshot.storage.k8s.io"
_MARK = "/var/lib/postgresql/data/mark"


@pytest.fixture(scope="module")
def here() -> Iterator[str]:
    """Return a namespace with a cluster `source` of one instance, which archives."""
    with namespace() as name:
        apply([_s3_secret(name), _object_store(name), _cluster(name, "source", archive=True)])
        wait_for("cluster", "source", name, _healthy, "must become healthy")
        yield name


def _healthy(cluster: dict[str, Any]) -> bool:
    return bool(cluster.get("status", {}).get("phase") == "Cluster in healthy state")


def _cluster(at: str, name: str, *, archive: bool = False, **spec: Any) -> dict[str, Any]:
    fast = {"startup": {"periodSeconds": 1, "failureThreshold": 600}, "readiness": {"periodSeconds": 1}}
    archiver = {"name": _PLUGIN, "isWALArchiver": True, "parameters": {"barmanObjectName": "store"}}
    return {
        "apiVersion": "postgresql.cnpg.io/v1",
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": at},
        "spec": {
            "instances": 1,
            "imageName": images.OPERAND.name,
            "storage": {"size": "1Gi", "storageClass": STORAGE_CLASS},
            "probes": fast,
            "postgresql": {"parameters": {"shared_buffers": "32MB"}},
            **({"plugins": [archiver]} if archive else {}),
            **spec,
        },
    }


def _s3_secret(at: str) -> dict[str, Any]:
    keys = {"KEY": S3_KEY, "SECRET": S3_SECRET}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3", "namespace": at}, "stringData": keys}


def _object_store(at: str) -> dict[str, Any]:
    return {
        "apiVersion": "barmancloud.cnpg.io/v1",
        "kind": "ObjectStore",
        "metadata": {"name": "store", "namespace": at},
        "spec": {
            "configuration": {
                "destinationPath": f"s3://{S3_BUCKET}/{at}/",
                "endpointURL": S3_ENDPOINT,
                "s3Credentials": {
                    "accessKeyId": {"name": "s3", "key": "KEY"},
                    "secretAccessKey": {"name": "s3", "key": "SECRET"},
                },
                "wal": {"compression": "gzip"},
                "data": {"immediateCheckpoint": True},
            }
        },
    }


def test_the_node_takes_pods() -> None:
    node = get("node", NODE, "default")
    assert [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"] == ["True"]


def test_an_instance_can_be_reached_from_the_host_by_its_service(here: str) -> None:
    login, address = secret("source-app", here), get("service", "source-rw", here)["spec"]["clusterIP"]
    with psycopg.connect(
        host=address, user=login["username"], password=login["password"], dbname=login["dbname"], sslmode="require"
    ) as connection:
        assert connection.execute("select 6 * 7").fetchone() == (42,)


def test_a_snapshot_and_a_clone_hold_what_was_there_when_they_were_made(here: str) -> None:
    write = ("exec", "source-1", f"--namespace={here}", "--container=postgres", "--", "sh", "-c")
    kubectl(*write, f"echo first > {_MARK}; sync {_MARK}")
    apply([_snapshot(here)])
    wait_for("volumesnapshot", "held", here, lambda one: bool(one.get("status", {}).get("readyToUse")), "must be ready")
    kubectl(*write, f"echo second > {_MARK}; sync {_MARK}")
    apply([_volume(here, "of-volume", {"kind": "PersistentVolumeClaim", "name": "source-1"})])
    apply([_volume(here, "of-snapshot", {"kind": "VolumeSnapshot", "name": "held", "apiGroup": _SNAPSHOTS})])
    apply([_reader(here)])
    wait_for("pod", "reader", here, lambda one: one.get("status", {}).get("phase") == "Succeeded", "must end")
    assert kubectl("logs", "reader", f"--namespace={here}").split() == ["first", "second"]


def _snapshot(at: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{_SNAPSHOTS}/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": "held", "namespace": at},
        "spec": {"volumeSnapshotClassName": SNAPSHOT_CLASS, "source": {"persistentVolumeClaimName": "source-1"}},
    }


def _volume(at: str, name: str, source: dict[str, str]) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "dataSource": source}
    metadata = {"name": name, "namespace": at}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _reader(at: str) -> dict[str, Any]:
    """Return a pod that prints the mark in the volume of the snapshot, then that in the clone."""
    names = ("of-snapshot", "of-volume")
    container = {
        "name": "main",
        "image": images.OPERAND.name,
        "command": ["cat", *(f"/{name}/mark" for name in names)],
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in names],
    }
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    spec = {"containers": [container], "volumes": volumes, "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reader", "namespace": at}, "spec": spec}


def test_a_volume_grows(here: str) -> None:
    kubectl(
        "patch",
        "cluster",
        "source",
        f"--namespace={here}",
        "--type=merge",
        '--patch={"spec":{"storage":{"size":"2Gi"}}}',
    )
    wait_for(
        "pvc", "source-1", here, lambda claim: bool(claim["status"]["capacity"]["storage"] == "2Gi"), "must have 2Gi"
    )


def test_a_pooler_answers_under_its_name(here: str) -> None:
    container = {"name": "pgbouncer", "image": images.POOLER.name, "imagePullPolicy": "IfNotPresent"}
    pooler = {
        "apiVersion": "postgresql.cnpg.io/v1",
        "kind": "Pooler",
        "metadata": {"name": "pool", "namespace": here},
        "spec": {
            "cluster": {"name": "source"},
            "instances": 1,
            "type": "rw",
            "pgbouncer": {"poolMode": "session"},
            "template": {"metadata": {"labels": {"app": "pool"}}, "spec": {"containers": [container]}},
        },
    }
    apply([pooler])
    wait_for("deployment", "pool", here, lambda one: bool(one.get("status", {}).get("readyReplicas")), "must be ready")
    login = secret("source-app", here)
    uri = f"postgresql://{login['username']}:{login['password']}@pool.{here}.svc.cluster.local/{login['dbname']}"
    psql = ("exec", "source-1", f"--namespace={here}", "--container=postgres", "--", "psql", uri, "-Atc")
    # Until the node's rules lead to the pod, which is ready before, the connection is refused.
    eventually(lambda: _answer(*psql, "select 6 * 7") == "42", "the pooler's answer", 1.0)


def _answer(*command: str) -> str:
    try:
        return kubectl(*command).strip()
    except RuntimeError as error:
        return str(error)


def test_a_base_backup_arrives_in_the_bucket(here: str) -> None:
    backup = {
        "apiVersion": "postgresql.cnpg.io/v1",
        "kind": "Backup",
        "metadata": {"name": "first", "namespace": here},
        "spec": {"method": "plugin", "cluster": {"name": "source"}, "pluginConfiguration": {"name": _PLUGIN}},
    }
    apply([backup])
    done = wait_for(
        "backup",
        "first",
        here,
        lambda one: one.get("status", {}).get("phase") in ("completed", "failed"),
        "must end",
    )
    assert done["status"]["phase"] == "completed", done["status"]
