"""The cluster enforces network policies: what a policy does not allow does not arrive."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from harness.kubernetes import images
from harness.kubernetes.contents import apply, kubectl
from harness.kubernetes.layout import HOST_ADDRESS, NODE_ADDRESS
from harness.kubernetes.objects import get, namespace, wait_for
from harness.waiting import eventually
from tests.kubernetes.reaching import listening_outside, reaches

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]
_PORT = 5000
_SERVE = f"python3 -m http.server {_PORT} --bind 0.0.0.0 --directory /usr/share/zoneinfo"


@pytest.fixture(scope="module")
def here() -> Iterator[str]:
    """Return a namespace with two pods, `one` and `other`, that listen on a port."""
    with namespace() as name:
        apply([_pod(name, "one"), _pod(name, "other")])
        for pod in ("one", "other"):
            wait_for("pod", pod, name, _ready, "must become ready")
        yield name


@pytest.fixture
def outside() -> Iterator[int]:
    """Return a port of this machine, which is outside of the cluster, that accepts connections."""
    with listening_outside() as port:
        yield port


def _pod(at: str, name: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": images.OPERAND.name,
        "command": ["sh", "-c", _SERVE],
        "readinessProbe": {"tcpSocket": {"port": _PORT}, "periodSeconds": 1},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": at, "labels": {"name": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


def _ready(pod: dict[str, Any]) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True" for one in pod.get("status", {}).get("conditions", [])
    )


def _policy(at: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": at}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


def _address(at: str, pod: str) -> str:
    return str(get("pod", pod, at)["status"]["podIP"])


def test_a_pod_without_egress_reaches_nothing_until_its_policy_goes(here: str, outside: int) -> None:
    targets = [(_address(here, "other"), _PORT), (HOST_ADDRESS, outside), (NODE_ADDRESS, 6443)]
    assert all(reaches(here, "one", *target) for target in targets)
    chosen = {"matchLabels": {"name": "one"}}
    apply([_policy(here, "closed", podSelector=chosen, policyTypes=["Egress"])])
    eventually(lambda: not reaches(here, "one", *targets[0]), "the policy")
    assert not any(reaches(here, "one", *target) for target in targets)
    assert reaches(here, "other", *targets[1])
    kubectl("delete", "networkpolicy", "closed", f"--namespace={here}")
    eventually(lambda: reaches(here, "one", *targets[0]), "the end of the policy")


def test_only_the_pods_that_a_policy_names_come_in(here: str) -> None:
    target = (_address(here, "other"), _PORT)
    rule = {"from": [{"podSelector": {"matchLabels": {"name": "one"}}}], "ports": [{"port": _PORT}]}
    chosen = {"matchLabels": {"name": "other"}}
    apply([_policy(here, "guarded", podSelector=chosen, policyTypes=["Ingress"], ingress=[rule])])

    def host_is_refused() -> bool:
        try:
            socket.create_connection(target, 3).close()
        except TimeoutError:
            return True
        return False

    eventually(host_is_refused, "the policy")
    assert reaches(here, "one", *target)
    kubectl("delete", "networkpolicy", "guarded", f"--namespace={here}")
    eventually(lambda: not host_is_refused(), "the end of the policy")
