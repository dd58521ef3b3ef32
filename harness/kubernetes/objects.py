"""Reads and waits for objects of the cluster, for its tests."""

import base64
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from harness.kubernetes.contents import apply, kubectl
from harness.waiting import eventually

Object = dict[str, Any]


def get(kind: str, name: str, namespace: str) -> Object:
    """Return an object. Raise RuntimeError if it is not there."""
    found: Object = json.loads(kubectl("get", kind, name, f"--namespace={namespace}", "--output=json"))
    return found


def wait_for(kind: str, name: str, namespace: str, seen: Callable[[Object], bool], what: str) -> Object:
    """Wait until an object is as wanted, and return it. Raise TimeoutError that shows its status."""
    last: Object = {}

    def looks() -> bool:
        found = json.loads(
            kubectl("get", kind, name, f"--namespace={namespace}", "--output=json", "--ignore-not-found") or "{}"
        )
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
    kubectl("delete", f"{makers},pods", "--all", here, "--wait=false")
    eventually(lambda: not kubectl("get", "pods", here, "--output=name"), f"the end of the pods of {namespace}", 0.3)
    kubectl("delete", "namespace", namespace, "--wait=true", "--timeout=120s")
