"""Reads and waits for objects of the cluster, for its tests."""

import base64
import functools
import json
import ssl
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from harness.kubernetes.contents import apply, kubectl
from harness.kubernetes.layout import API_SERVER, kubeconfig
from harness.waiting import eventually

Object = dict[str, Any]
# Where the API server has the objects of each kind: kubectl knows that, too, but takes a tenth of a second of CPU.
_PATHS: Mapping[str, str] = {
    "backup": "/apis/postgresql.cnpg.io/v1/namespaces/{}/backups",
    "cluster": "/apis/postgresql.cnpg.io/v1/namespaces/{}/clusters",
    "deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "networkpolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "node": "/api/v1/nodes",
    "pod": "/api/v1/namespaces/{}/pods",
    "pvc": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "secret": "/api/v1/namespaces/{}/secrets",
    "service": "/api/v1/namespaces/{}/services",
    "volumesnapshot": "/apis/snapshot.storage.k8s.io/v1/namespaces/{}/volumesnapshots",
}


def get(kind: str, name: str, namespace: str) -> Object:
    """Return an object. Raise RuntimeError if it is not there."""
    found = find(kind, name, namespace)
    if found is None:
        raise RuntimeError(f"there is no {kind} {namespace}/{name}")
    return found


def find(kind: str, name: str, namespace: str) -> Object | None:
    """Return an object, or None if it is not there."""
    answer = _client().get(f"{_PATHS[kind].format(namespace)}/{name}")
    if answer.status_code == httpx.codes.NOT_FOUND:
        return None
    found: Object = answer.raise_for_status().json()
    return found


@functools.cache
def _client() -> httpx.Client:
    """Return a client of the API server as the cluster's administrator."""
    found = json.loads(kubeconfig().read_text())
    authority = base64.b64decode(found["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    token = found["users"][0]["user"]["token"]
    return httpx.Client(
        base_url=API_SERVER,
        headers={"Authorization": f"Bearer {token}"},
        verify=ssl.create_default_context(cadata=authority),
        timeout=60,
        trust_env=False,
    )


def wait_for(kind: str, name: str, namespace: str, seen: Callable[[Object], bool], what: str) -> Object:
    """Wait until an object is as wanted, and return it. Raise TimeoutError that shows its status."""
    last: Object = {}

    def looks() -> bool:
        found = find(kind, name, namespace) or {}
        last.clear()
        last.update(found)
        return bool(found) and seen(found)

    def failure() -> str:
        return f"{kind} {namespace}/{name}: {what} (its status: {json.dumps(last.get('status'))[:2000]})"

    eventually(looks, failure, 0.3, seconds=300)
    return last


def secret(name: str, namespace: str) -> dict[str, str]:
    """Return the values of a secret."""
    return {key: base64.b64decode(value).decode() for key, value in get("secret", name, namespace)["data"].items()}


def sql(pod: str, namespace: str, statement: str, database: str = "app") -> str:
    """Run a statement as superuser inside a pod of PostgreSQL, and return its rows as text."""
    psql = ("psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1")
    words = (
        "exec",
        pod,
        f"--namespace={namespace}",
        "--container=postgres",
        "--",
        *psql,
        database,
        "--command",
        statement,
    )
    return kubectl(*words).strip()


@contextmanager
def namespace() -> Iterator[str]:
    """Make a namespace for the block; all that is in it goes with it."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
    try:
        yield name
    finally:
        _delete(name)


def _delete(namespace: str) -> None:
    """Delete a namespace, its pods first.

    Kubernetes looks at a namespace again after half of the grace period of its pods, which is 15 minutes here.
    """
    here = f"--namespace={namespace}"
    makers = "deployments,clusters.postgresql.cnpg.io,poolers.postgresql.cnpg.io"
    kubectl("delete", makers, "--all", here, "--wait=false")
    kubectl("delete", "pods", "--all", here, "--wait=false", "--grace-period=1")  # nothing of its data is needed
    eventually(lambda: not kubectl("get", "pods", here, "--output=name"), f"the end of the pods of {namespace}", 0.3)
    kubectl("delete", "namespace", namespace, "--wait=true", "--timeout=120s")
