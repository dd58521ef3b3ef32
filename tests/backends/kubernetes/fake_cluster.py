"""The objects of a cluster in memory, with an operator that does at once what CloudNativePG does in seconds."""

import itertools
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

NAMESPACE = "services"
HEALTHY = "Cluster in healthy state"
Answer = Callable[[str, list[str], str], tuple[str, str, int]]


def merged(old: Any, change: Any) -> Any:
    """Return an object with a merge patch."""
    if not isinstance(change, Mapping):
        return change
    found = dict(old) if isinstance(old, Mapping) else {}
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


class FakeCluster:
    """The objects, and what was asked."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.refused: dict[str, int] = {}
        self.refused_runs: list[str] = []
        self.unknown: set[str] = set()
        self.phase = HEALTHY
        self.copies_at_once = True
        self.snapshots_at_once = True
        self.volumes_at_once = True
        self.silent = False
        self.answer: Answer = lambda pod, command, stdin: ("", "", 0)
        self.changed = threading.Condition()
        self._events: list[tuple[int, str, str, dict[str, Any]]] = []
        self._versions = itertools.count(1)
        self.closing = False
        self.url = ""
        self.put("namespaces", {"metadata": {"name": NAMESPACE}})

    def put(self, plural: str, found: dict[str, Any]) -> dict[str, Any]:
        """Store an object, tell the watches, and let the operator act."""
        with self.changed:
            key = (plural, found["metadata"]["name"])
            event = "MODIFIED" if key in self.objects else "ADDED"
            found["metadata"]["resourceVersion"] = str(version := next(self._versions))
            self.objects[key] = found
            self._events.append((version, event, plural, json.loads(json.dumps(found))))
            self.changed.notify_all()
        self._operate(plural, found)
        return found

    def remove(self, plural: str, name: str) -> bool:
        """Remove an object, and what the operator removes with it."""
        with self.changed:
            found = self.objects.pop((plural, name), None)
            if found is None:
                return False
            self._events.append((next(self._versions), "DELETED", plural, found))
            self.changed.notify_all()
        if plural in ("clusters", "deployments"):
            for kind, other in [key for key in self.objects if key[1] == f"{name}-1"]:
                self.remove(kind, other)
        return True

    def forget_versions(self, plural: str) -> None:
        """End the watches of a kind, as an API server does that has forgotten the version they began with."""
        labels = {"ramet/service": "abcdefghij"}
        gone = {"kind": "Status", "status": "Failure", "code": 410, "message": "too old resource version"}
        with self.changed:
            self._events.append((next(self._versions), "ERROR", plural, {**gone, "metadata": {"labels": labels}}))
            self.changed.notify_all()

    def version(self) -> int:
        """Return the version of the last change."""
        return self._events[-1][0] if self._events else 0

    def events_after(self, version: int, plural: str) -> tuple[int, list[tuple[str, dict[str, Any]]]]:
        """Return what has happened to objects of a kind since a version, and the version of now."""
        with self.changed:
            if not any(one[0] > version for one in self._events):
                self.changed.wait(0.1)
            found = [(event, one) for at, event, kind, one in self._events if at > version and kind == plural]
            return max([version, *(one[0] for one in self._events)]), found

    def _operate(self, plural: str, found: dict[str, Any]) -> None:
        name = found["metadata"]["name"]
        if plural == "volumesnapshots" and "status" not in found:
            cut = {"creationTime": "2026-01-01T00:00:00Z"}
            self.put(plural, {**found, "status": {**cut, "readyToUse": self.snapshots_at_once}})
        if plural == "persistentvolumeclaims" and "status" not in found:
            self.put(plural, {**found, "status": {"phase": "Bound" if self.volumes_at_once else "Pending"}})
        if plural == "deployments" and ("pods", f"{name}-1") not in self.objects:
            template = found["spec"]["template"]["metadata"]
            self.put("pods", {"metadata": {**template, "name": f"{name}-1"}, "status": running_pod()})
        if plural == "pods" and "status" not in found:
            self.put(plural, {**found, "status": running_pod()})
        if plural == "clusters":
            self._operate_cluster(name, found)

    def _operate_cluster(self, name: str, found: dict[str, Any]) -> None:
        status = found.get("status", {})
        conditions = status.get("conditions", [])
        begun = any(one["type"] == "cnpg.io/hibernation" for one in conditions)
        labels = found["metadata"]["labels"]
        if found["metadata"]["annotations"].get("cnpg.io/hibernation") == "on":
            if (self.phase == HEALTHY or begun) and ("pods", f"{name}-1") in self.objects:
                self.remove("pods", f"{name}-1")
                asleep = [{"type": "cnpg.io/hibernation", "status": "True", "reason": "Hibernated"}]
                self.put("clusters", {**found, "status": {**status, "conditions": asleep}})
            return
        if ("persistentvolumeclaims", f"{name}-1") not in self.objects:
            size = found["spec"]["storage"]["size"]
            spec = {"resources": {"requests": {"storage": size}}}
            own = {**labels, "cnpg.io/cluster": name}
            self.put("persistentvolumeclaims", {"metadata": {"name": f"{name}-1", "labels": own}, "spec": spec})
        if not self.copies_at_once and "pg_basebackup" in found["spec"]["bootstrap"]:
            job = {"name": f"{name}-1-pgbasebackup", "labels": {**labels, "cnpg.io/jobRole": "pgbasebackup"}}
            self.put("pods", {"metadata": job, "status": {"phase": "Running"}})
            return
        if ("pods", f"{name}-1") not in self.objects:
            pod = {"metadata": {"name": f"{name}-1", "labels": labels}, "status": running_pod()}
            self.put("pods", pod)
        count = found["spec"]["instances"]
        wanted = {"phase": self.phase, "currentPrimary": f"{name}-1", "instances": count, "readyInstances": count}
        if {key: status.get(key) for key in wanted} != wanted or begun:
            self.put("clusters", {**found, "status": {**status, **wanted, "conditions": []}})


def running_pod() -> dict[str, Any]:
    """Return the status of a pod whose server serves."""
    return {
        "phase": "Running",
        "podIP": "10.0.0.7",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "postgres", "ready": True, "state": {"running": {}}}],
    }
