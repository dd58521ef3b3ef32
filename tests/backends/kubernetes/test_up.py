"""`ramet up`, `doctor` and `down` as processes, with services in a cluster."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.instance import Instance, open_instance
from harness.waiting import eventually
from tests.backends.kubernetes.api_server import api_server, kubeconfig
from tests.backends.kubernetes.fake_cluster import FakeCluster


@pytest.fixture
def host(tmp_path: Path) -> Iterator[tuple[FakeCluster, Instance]]:
    path = tmp_path / "kubeconfig"
    with api_server() as (found, _), open_instance() as made:
        path.write_text(json.dumps(kubeconfig(found.url)))
        made.environment |= {
            "RAMET_BACKEND": "kubernetes",
            "RAMET_KUBECONFIG": str(path),
            "RAMET_KUBERNETES_NAMESPACE": "team-{project}",
        }
        yield found, made


def test_services_are_made_in_the_cluster_and_outlive_ramet(host: tuple[FakeCluster, Instance]) -> None:
    found, ramet = host
    examined = ramet.run("doctor", "--data", str(ramet.data), "--output", "json")
    assert json.loads(examined.stdout)["kubernetes"] == "v1.34.4, namespace team-{project} for each project."
    ramet.up()
    created = ramet.ask("POST", "/services", {"name": "shop", "service_type": "POSTGRES"})
    name, namespace = f"ramet-{created['service_id']}", f"team-{ramet.credentials['project_id']}"
    assert created["endpoint"]["host"] == f"{name}.{namespace}.svc"
    eventually(lambda: ("clusters", name) in found.objects)
    assert found.objects["clusters", name]["metadata"]["namespace"] == namespace
    assert ramet.down() == 0
    assert ("clusters", name) in found.objects
    assert "secret-token" not in ramet.log
    assert "/api" not in ramet.log.replace("/public/api", ""), "requests to the API server are not logged"


def test_what_needs_this_host_is_refused_with_the_reason(host: tuple[FakeCluster, Instance]) -> None:
    _, ramet = host
    ramet.up()
    answer = ramet.call("POST", "/services", {"name": "shop", "service_type": "POSTGRES", "sleep_after_seconds": 900})
    assert (answer.status_code, answer.json()["code"]) == (400, "NOT_ON_KUBERNETES")
    leftovers = ramet.run("doctor", "--leftovers", "--data", str(ramet.data))
    assert leftovers.returncode != 0
    assert "keeps nothing on this host" in leftovers.stderr


def test_a_cluster_that_is_not_named_is_asked_for_before_anything_starts(tmp_path: Path) -> None:
    with open_instance(RAMET_BACKEND="kubernetes", KUBECONFIG=str(tmp_path / "absent")) as ramet:
        ended = ramet.run("up", "--data", str(ramet.data), "--port", "0")
        assert ended.returncode != 0
        assert "Set RAMET_KUBECONFIG to a kubeconfig file, or run Ramet in the cluster" in ended.stderr
