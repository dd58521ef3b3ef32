"""Namespaces of services: one for all, or one for each project."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Source
from ramet.backends.kubernetes import doctor, egress
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.wal_reader import WalReader
from ramet.errors import Failed
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster
from tests.backends.kubernetes.servers import SHARED

SHOP = replace(SHARED, project_id="shopshop12")
FORK = replace(SHOP, service_id="forkfork12", port=15433)
OTHER = replace(SHARED, service_id="otherother", project_id="otherproje")


@pytest.fixture
def cluster() -> Iterator[tuple[FakeCluster, Place]]:
    with in_cluster("team-{project}") as found:
        yield found


def namespaces_of(found: FakeCluster, service_id: str) -> set[str]:
    """Return the namespaces that the paths of requests about a service name."""
    paths = [path for _, path in found.requests if service_id in path and "/namespaces/" in path]
    return {path.partition("/namespaces/")[2].partition("/")[0] for path in paths}


def test_each_project_has_a_namespace_that_is_made_once(cluster: tuple[FakeCluster, Place]) -> None:
    found, place = cluster
    backend = KubernetesBackend(place)
    for server in (SHOP, OTHER):
        backend.servers.initialize(server)
        backend.servers.start(server)
    backend.restore.capture(FORK, Source(SHOP, paused=True))
    assert found.objects[("clusters", "ramet-abcdefghij")]["metadata"]["namespace"] == "team-shopshop12"
    assert found.objects[("persistentvolumeclaims", "ramet-forkfork12-1")]["metadata"]["namespace"] == "team-shopshop12"
    assert found.objects[("clusters", "ramet-otherother")]["metadata"]["namespace"] == "team-otherproje"
    assert found.objects[("namespaces", "team-shopshop12")]["metadata"]["labels"] == {"ramet/project": "shopshop12"}
    made = [path for verb, path in found.requests if verb == "PATCH" and path.startswith("/api/v1/namespaces/team-")]
    assert [path for path in made if path.count("/") == 4] == [
        "/api/v1/namespaces/team-shopshop12",
        "/api/v1/namespaces/team-otherproje",
    ]


def test_a_process_that_never_met_a_service_finds_its_namespace(cluster: tuple[FakeCluster, Place]) -> None:
    found, place = cluster
    KubernetesBackend(place).servers.initialize(SHOP)
    place.api.namespaces._known.clear()  # as after a restart of Ramet
    found.requests.clear()
    KubernetesBackend(place).servers.destroy(SHOP.service_id)
    assert ("clusters", "ramet-abcdefghij") not in found.objects
    assert namespaces_of(found, SHOP.service_id) == {"team-shopshop12"}


@pytest.mark.parametrize("has", ["a policy", "a pod", "what a pod has read"])
def test_what_a_fork_has_before_its_cluster_is_found_by_another_process(
    cluster: tuple[FakeCluster, Place], has: str
) -> None:
    found, place = cluster
    place.ensure_namespace(FORK)
    if has == "a policy":
        egress.close(place, FORK.service_id)
    elif has == "a pod":
        WalReader(place, FORK, 1).begin(1.0)
    else:
        WalReader(place, FORK, 1).note("{}")
    place.api.namespaces._known.clear()
    found.requests.clear()
    KubernetesBackend(place).servers.destroy(FORK.service_id)
    assert namespaces_of(found, FORK.service_id) == {"team-shopshop12"}


def test_what_never_existed_can_be_removed(cluster: tuple[FakeCluster, Place]) -> None:
    _, place = cluster
    KubernetesBackend(place).servers.destroy("neverneve1")
    assert place.cluster_of("neverneve1") is None


def test_watches_do_not_grow_with_projects(cluster: tuple[FakeCluster, Place]) -> None:
    found, place = cluster
    backend = KubernetesBackend(place)
    for server in (SHOP, OTHER):
        backend.servers.initialize(server)
    eventually(lambda: all(backend.servers.inspect(server).serving for server in (SHOP, OTHER)), "both in the watches")
    lists = {path for verb, path in found.requests if verb == "GET" and path.endswith(("/clusters", "/pods"))}
    assert lists == {"/apis/postgresql.cnpg.io/v1/clusters", "/api/v1/pods"}


def test_an_address_names_the_namespace_of_its_project(cluster: tuple[FakeCluster, Place]) -> None:
    host = KubernetesBackend(cluster[1]).host
    assert host.address("abcdefghij", "shopshop12", "unused") == "ramet-abcdefghij.team-shopshop12.svc"


def test_doctor_says_which_namespaces_there_are_and_which_is_missing(cluster: tuple[FakeCluster, Place]) -> None:
    rows = dict(doctor.examine(cluster[1]))
    assert rows["kubernetes"] == "v1.34.4, namespace team-{project} for each project."
    assert rows["rights"] == "All that Ramet needs in its namespaces."
    with in_cluster("absent") as (_, place):
        assert "kubectl create namespace absent" in dict(doctor.examine(place))["kubernetes"]


def test_a_missing_namespace_is_named_when_something_is_made_there() -> None:
    with in_cluster("absent") as (found, place):
        found.refused = {"clusters": 404}
        with pytest.raises(Failed, match="in namespace absent") as missing:
            KubernetesBackend(place).servers.initialize(SHARED)
        assert missing.value.code == "NAMESPACE_MISSING"
