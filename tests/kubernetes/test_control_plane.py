"""Ramet itself in the cluster, by its own manifests: several pods over one store, replaced while operations run."""

import json
import os
import random
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
import yaml

from harness.kubernetes import control_plane, images, programs
from harness.kubernetes.contents import OPERATORS, apply, kubectl
from harness.kubernetes.layout import NODE_ADDRESS
from harness.kubernetes.objects import get, namespace, wait_for
from harness.kubernetes.versions import KUBERNETES, REPOSITORY
from harness.waiting import eventually
from ramet.client import ApiError, Client
from ramet.errors import Unavailable
from ramet.model.fork import ForkStrategy
from ramet.model.status import Status
from tests.kubernetes.ramets import login

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]
_MANIFESTS = REPOSITORY / "deploy/kubernetes/ramet.yaml"
_CHART = REPOSITORY / "deploy/helm/ramet"
_PODS = {"serve": 2, "worker": 2}
_OF_RAMET = "--selector=app.kubernetes.io/component in (serve, worker)"
_KILLS = 6
_OPERATOR_AT = 2


@dataclass
class House:
    """Where Ramet runs, where its services go, and a client of it."""

    at: str
    services: str
    client: Client


def rendered(at: str, services: str) -> list[dict[str, Any]]:
    """Return the manifests for two namespaces and the images of this cluster."""
    text = _MANIFESTS.read_text().replace("namespace: ramet-services", f"namespace: {services}")
    text = text.replace('"ramet-services"', f'"{services}"').replace("namespace: ramet\n", f"namespace: {at}\n")
    text = text.replace("namespace: ramet}", f"namespace: {at}}}").replace(
        "registry.example/ramet:0.1.0", control_plane.NAME
    )
    found = [one for one in yaml.safe_load_all(text) if one]
    for one in found:
        if one["metadata"].get("namespace") in (None, "default"):  # they are there once for all of the cluster
            one["metadata"]["name"] += f"-{at}"
            if "roleRef" in one:
                one["roleRef"]["name"] += f"-{at}"
        if one["kind"] == "Cluster":
            one["spec"] |= {"imageName": images.OPERAND.name, "instances": 1, "enablePDB": False}
            one["spec"].pop("postgresql")
        if one["kind"] == "ConfigMap":
            one["data"] |= {
                "RAMET_KUBERNETES_IMAGE": "ramet.test/postgresql:{major}",
                "RAMET_KUBERNETES_MAJORS": "15",
                "RAMET_KUBERNETES_POOLER_IMAGE": images.POOLER.name,
                "RAMET_KUBERNETES_VOLUME_GBS": "1",
                "RAMET_KUBERNETES_ENDPOINTS": "nodeport",
                "RAMET_ENDPOINT_HOST": NODE_ADDRESS,
                "RAMET_PORT_RANGE": "32000-32100",
            }
    return found


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    control_plane.import_image()
    with ExitStack() as stack:
        at, services = stack.enter_context(namespace()), stack.enter_context(namespace())
        key = {"root.key": secrets.token_hex(16)}
        made = rendered(at, services)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ramet-secrets", "namespace": at}}
        apply([{**secret, "stringData": key}, *made])
        stack.callback(forget, made)
        for name, count in _PODS.items():
            wait_for("deployment", f"ramet-{name}", at, ready_pods(count), "must have its pods")
        project = inside(at, "project", "create", "shop", "--output", "json")
        made_key = inside(at, "key", "create", "--project", project["id"], "--output", "json")
        url = f"http://{get('service', 'ramet', at)['spec']['clusterIP']}/public/api/v1"
        client = stack.enter_context(
            Client(url, made_key["project_id"], made_key["public_key"], made_key["secret_key"])
        )
        yield House(at, services, client)


def ready_pods(count: int) -> Any:
    """Return whether a Deployment has so many pods, all of its newest template."""

    def has(one: dict[str, Any]) -> bool:
        status = one.get("status", {})
        is_seen = status.get("observedGeneration") == one["metadata"]["generation"]
        return is_seen and [status.get(f"{kind}eplicas") for kind in ("r", "updatedR", "readyR")] == [count] * 3

    return has


def forget(made: list[dict[str, Any]]) -> None:
    """Remove what is in no namespace of this test."""
    for one in made:
        if one["metadata"].get("namespace") in (None, "default"):
            at = f"--namespace={one['metadata'].get('namespace', 'default')}"
            kubectl("delete", one["kind"], one["metadata"]["name"], at, "--ignore-not-found")


def inside(at: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        kubectl("exec", "deployment/ramet-serve", f"--namespace={at}", "--", "/opt/ramet/bin/ramet", *words)
    )
    return found


def replace_pods(house: House, mark: str) -> None:
    """Begin to replace all pods, as another image would."""
    change = {"spec": {"template": {"metadata": {"annotations": {"ramet/test": mark}}}}}
    for name in _PODS:
        patch = f"--patch={json.dumps(change)}"
        kubectl("patch", "deployment", f"ramet-{name}", f"--namespace={house.at}", "--type=merge", patch)


def test_the_doctor_finds_nothing_missing(house: House) -> None:
    text = kubectl("exec", "deployment/ramet-serve", f"--namespace={house.at}", "--", "/opt/ramet/bin/ramet", "doctor")
    assert "All that Ramet needs in its namespace." in text
    assert "Cannot be examined" not in text


def test_operations_go_on_while_all_pods_are_replaced(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    client = house.client
    asked = client.create_service("shop")
    assert asked.initial_password is not None
    parent = client.wait_ready(asked.service_id)
    began, answered, refused = time.monotonic(), 0, []
    created = client.create_service("other")
    forked = client.fork_service(parent.service_id, ForkStrategy.NOW)
    replace_pods(house, "1")

    def over() -> bool:
        nonlocal answered
        try:
            client.list_services()
            answered += 1
        except Exception as error:  # noqa: BLE001 - counted
            refused.append(str(error))
        return all(ready_pods(count)(get("deployment", f"ramet-{name}", house.at)) for name, count in _PODS.items())

    eventually(over, "new pods", 0.2, seconds=300)
    for one in (created, forked):
        client.wait_ready(one.service_id)
    seconds = time.monotonic() - began
    with capsys.disabled():
        print(f"\nall pods replaced, a create and a fork READY after {seconds:.1f} s; {answered} answers, {refused}")
    assert refused == []
    assert forked.initial_password is not None
    with login(client.get_service(forked.service_id), forked.initial_password) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    for service in (parent, created, forked):
        client.delete_service(service.service_id)
        client.wait_deleted(service.service_id)
    left = kubectl("get", "pvc,pods,volumesnapshots,networkpolicies", f"--namespace={house.services}", "--output=name")
    assert left == ""


def kill(at: str, pod: str) -> None:
    kubectl("delete", pod, f"--namespace={at}", "--force", "--grace-period=0", "--ignore-not-found")


def operator() -> str:
    """Return the pod of CloudNativePG's operator."""
    chosen = "--selector=app.kubernetes.io/name=cloudnative-pg"
    return kubectl("get", "pods", f"--namespace={OPERATORS}", "--output=name", chosen).strip()


def test_forks_are_complete_though_pods_of_ramet_and_the_operator_are_killed(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    client = house.client
    asked = client.create_service("shop")
    assert asked.initial_password is not None
    parent = client.wait_ready(asked.service_id)
    with login(parent, asked.initial_password) as connection:
        connection.execute("CREATE TABLE ledger AS SELECT generate_series(1, 1000) AS n")
    forks = [client.fork_service(parent.service_id, ForkStrategy.NOW) for _ in range(3)]
    killed = 0

    def all_ready() -> bool:
        nonlocal killed
        try:
            statuses = [client.get_service(one.service_id).status for one in forks]
        except (Unavailable, ApiError):  # the pod that was asked has just been killed
            return False
        if killed < _KILLS and Status.READY not in statuses:
            if killed == _OPERATOR_AT:
                kill(OPERATORS, operator())
            pods = kubectl("get", "pods", f"--namespace={house.at}", "--output=name", _OF_RAMET).split()
            kill(house.at, random.choice(pods))
            killed += 1
        return all(status == Status.READY for status in statuses)

    eventually(all_ready, "three forks", 1.0, seconds=400)
    for one in forks:
        assert one.initial_password is not None
        with login(client.get_service(one.service_id), one.initial_password) as connection:
            assert connection.execute("SELECT count(*) FROM ledger").fetchone() == (1000,)
    for service in (*forks, parent):
        client.delete_service(service.service_id)
        client.wait_deleted(service.service_id)
    left = kubectl("get", "pvc,pods,volumesnapshots,networkpolicies", f"--namespace={house.services}", "--output=name")
    with capsys.disabled():
        print(f"\npods of Ramet killed: {killed}; three forks complete; left: {left or 'nothing'}")
    assert left == ""
    assert killed > _OPERATOR_AT


@pytest.mark.skipif(not programs.HELM.path.exists(), reason="Helm is not built: script/kubernetes build")
def test_the_manifests_are_what_the_chart_makes() -> None:
    def helm(*words: str) -> str:
        return subprocess.run([programs.HELM.path, *words], check=True, capture_output=True, text=True).stdout

    assert "0 chart(s) failed" in helm("lint", str(_CHART))
    version = ("--kube-version", KUBERNETES)
    text = helm("template", "ramet", str(_CHART), "--namespace", "ramet", *version)
    if os.environ.get("RAMET_UPDATE_GOLDEN"):
        _MANIFESTS.write_text(_MANIFESTS.read_text().partition("\n")[0] + "\n" + text)
    assert _MANIFESTS.read_text().partition("\n")[2] == text
    by_project = helm("template", "ramet", str(_CHART), *version, "--set", "services.namespace=ramet-{project}")
    kinds = [one["kind"] for one in yaml.safe_load_all(by_project) if one["metadata"]["name"] == "ramet-services"]
    assert sorted(kinds) == ["ClusterRole", "ClusterRoleBinding"]
    ingress = "ingress.host=ramet.example,ingress.proxies=10.42.0.0/16"
    published = {
        one["kind"]: one
        for one in yaml.safe_load_all(helm("template", "ramet", str(_CHART), *version, "--set", ingress))
    }
    assert "Ingress" in published
    assert published["ConfigMap"]["data"]["RAMET_TRUSTED_PROXIES"] == "10.42.0.0/16"
    with NamedTemporaryFile("w", suffix=".yaml") as values:  # as numbers of a file, which --set does not make
        values.write("settings: {RAMET_A: 10000000, RAMET_B: 0.5, RAMET_C: on, RAMET_D: off}")
        values.flush()
        made = helm("template", "ramet", str(_CHART), *version, "--values", values.name)
    (settings,) = (one["data"] for one in yaml.safe_load_all(made) if one["kind"] == "ConfigMap")
    assert [settings[f"RAMET_{one}"] for one in "ABCD"] == ["10000000", "0.5", "on", "off"]
    for wrong, said in (
        ("services.namespace=", "services.namespace must name a namespace"),
        ("settings.RAMET_KUBERNETES_NAMESPACE=other", "set services.namespace instead"),
        ("settings.RAMET_PORT=1", "the chart itself sets RAMET_PORT"),
        ("settings.RAMET_TLS_CERT=/tls.crt", "set ingress.host and ingress.tlsSecret instead"),
        ("settings.RAMET_TRUSTED_PROXIES=10.42.0.1", "set ingress.proxies instead"),
        ("ingress.host=ramet.example", "ingress.proxies must name the addresses or networks"),
    ):
        with pytest.raises(subprocess.CalledProcessError) as refused:
            helm("template", "ramet", str(_CHART), *version, "--set", wrong)
        assert said in refused.value.stderr
    helm("template", "ramet", str(_CHART), *version, "--set", "settings=null")
