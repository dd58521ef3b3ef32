"""What is applied to a new cluster: storage, DNS, CloudNativePG, the Barman plugin without cert-manager, a bucket."""

import base64
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from harness.kubernetes import images, programs
from harness.kubernetes.certificates import self_signed
from harness.kubernetes.go_modules import Module, source_of
from harness.kubernetes.layout import DNS_ADDRESS, DRIVER, NODE, NODE_ADDRESS, S3_BUCKET, S3_ENDPOINT, kubeconfig
from harness.kubernetes.versions import BARMAN_PLUGIN, CLOUDNATIVE_PG, SNAPSHOT_CRDS, cache_directory, digest, run
from harness.waiting import eventually

Object = dict[str, Any]
STORAGE_CLASS = SNAPSHOT_CLASS = "btrfs"
OPERATORS = "cnpg-system"
_READY_SECONDS = 300
_RESTART_SECONDS = 60
_CRDS = Module("github.com/kubernetes-csi/external-snapshotter/client/v8", SNAPSHOT_CRDS)


def manifests() -> Path:
    """Return the directory with the manifests of others' releases."""
    return cache_directory() / f"manifests-{digest(CLOUDNATIVE_PG, BARMAN_PLUGIN, SNAPSHOT_CRDS)}"


def build() -> None:
    """Take the manifests out of the modules whose releases they are."""
    half = manifests().with_name(f"half-{manifests().name}")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    operator = source_of(programs.OPERATOR_MODULE) / f"releases/cnpg-{CLOUDNATIVE_PG}.yaml"
    plugin = source_of(programs.PLUGIN_MODULE) / "manifest.yaml"
    crds = sorted((source_of(_CRDS) / "config/crd").glob("snapshot.storage.k8s.io_*.yaml"))
    for source, name in ((operator, "operator.yaml"), (plugin, "plugin.yaml"), *((crd, crd.name) for crd in crds)):
        (half / name).write_bytes(source.read_bytes())
    half.rename(manifests())


def kubectl(*arguments: str, stdin: str = "") -> str:
    """Run kubectl as the cluster's administrator, and return its output. Raise RuntimeError with the reason.

    While the operator is restarted, what it has to admit is tried again.
    """
    deadline = time.monotonic() + _RESTART_SECONDS
    while True:
        try:
            return run(str(programs.KUBE.path), "ctl", f"--kubeconfig={kubeconfig()}", *arguments, input=stdin)
        except RuntimeError as refused:
            if "failed calling webhook" not in str(refused) or time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def apply(objects: Sequence[Object]) -> None:
    """Apply objects on the server's side."""
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=json.dumps(listed))


def install() -> None:
    """Apply everything, and make the bucket."""
    definitions = [one for file in sorted(manifests().glob("snapshot.*.yaml")) for one in _read(file)]
    apply([*definitions, *_operator(), *_plugin(), *_dns(), *_storage()])
    kubectl(
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        *(f"crd/{one['metadata']['name']}" for one in definitions),
    )
    apply([_snapshot_class()])

    def bucket_is_there() -> bool:
        try:
            return httpx.put(f"{S3_ENDPOINT}/{S3_BUCKET}", trust_env=False).is_success
        except httpx.TransportError:
            return False

    eventually(bucket_is_there, "the S3 server", 0.1)


def wait_until_ready(say: Callable[[str], None]) -> None:
    """Wait until the node takes pods, and both operators answer; tell of each."""
    wait = ("wait", f"--timeout={_READY_SECONDS}s")
    eventually(lambda: NODE in kubectl("get", "nodes", "--output=name"), "the node", 0.2)
    kubectl(*wait, "--for=condition=Ready", f"node/{NODE}")
    say("node")
    for title, deployment in (("operator", "cnpg-controller-manager"), ("Barman plugin", "barman-cloud")):
        kubectl(*wait, f"--namespace={OPERATORS}", "--for=condition=Available", f"deployment/{deployment}")
        say(title)


def _read(file: Path) -> Iterator[Object]:
    with file.open() as content:
        yield from (one for one in yaml.load_all(content, Loader=yaml.CSafeLoader) if one)


def _operator() -> Iterator[Object]:
    for one in _read(manifests() / "operator.yaml"):
        if one["kind"] == "Deployment":
            container = _use_image(one, images.OPERATOR.name)
            # On a busy machine a tenth of a core makes all that the operator does slow.
            del container["resources"]
            for variable in container["env"]:
                if variable["name"] == "OPERATOR_IMAGE_NAME":
                    variable["value"] = images.OPERATOR.name
        yield one


def _plugin() -> Iterator[Object]:
    for one in _read(manifests() / "plugin.yaml"):
        if one["apiVersion"].startswith("cert-manager.io/"):
            continue
        if one["kind"] == "Deployment":
            container = _use_image(one, images.BARMAN_PLUGIN_IMAGE.name)
            container["readinessProbe"] |= {"initialDelaySeconds": 1, "periodSeconds": 1}
        if one["kind"] == "Secret":
            one["data"]["SIDECAR_IMAGE"] = base64.b64encode(images.BARMAN_SIDECAR.name.encode()).decode()
        yield one
    yield _tls_secret("barman-cloud-server-tls", "barman-cloud", client=False)
    yield _tls_secret("barman-cloud-client-tls", "barman-cloud-client", client=True)


def _use_image(deployment: Object, image: str) -> Object:
    container: Object = deployment["spec"]["template"]["spec"]["containers"][0]
    container["image"], container["imagePullPolicy"] = image, "IfNotPresent"
    return container


def _tls_secret(name: str, common_name: str, *, client: bool) -> Object:
    pair = self_signed(common_name, [common_name], client=client)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": OPERATORS},
        "stringData": {"tls.crt": pair.certificate.decode(), "tls.key": pair.key.decode()},
    }


def _dns() -> Iterator[Object]:
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}]
    metadata = {"name": "kube-dns", "namespace": "kube-system"}
    spec = {"clusterIP": DNS_ADDRESS, "ports": ports}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    yield {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**metadata, "labels": {"kubernetes.io/service-name": "kube-dns"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [NODE_ADDRESS], "conditions": {"ready": True}}],
        "ports": ports,
    }


def _storage() -> Iterator[Object]:
    driver = {
        "attachRequired": False,
        "podInfoOnMount": False,
        "fsGroupPolicy": "None",
        "volumeLifecycleModes": ["Persistent"],
    }
    yield {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": driver}
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": DRIVER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": True,
    }


def _snapshot_class() -> Object:
    default = {"snapshot.storage.kubernetes.io/is-default-class": "true"}
    return {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": {"name": SNAPSHOT_CLASS, "annotations": default},
        "driver": DRIVER,
        "deletionPolicy": "Delete",
    }
