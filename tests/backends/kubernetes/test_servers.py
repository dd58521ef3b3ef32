"""The life of servers, over an API server in memory: what is applied, in which order, and what is left."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Source
from ramet.backends.kubernetes import names, securing, waking
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.site import Forks
from ramet.errors import Failed, Invalid, Unavailable
from ramet.model.size import Size
from ramet.model.wal_level import WalLevel
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster
from tests.backends.kubernetes.past_world import CONTROL, STOPPED
from tests.backends.kubernetes.servers import SHARED

FORK = replace(SHARED, service_id="forkfork12", port=15433)
NAME = "ramet-abcdefghij"


@pytest.fixture
def made() -> Iterator[tuple[FakeCluster, KubernetesBackend]]:
    with in_cluster() as (found, place):
        yield found, KubernetesBackend(place)


def answers(found: FakeCluster, *said: str, errors: str = "", code: int = 0) -> None:
    """Let programs in pods print this, one after another; the last one from then on."""
    left = list(said)

    def answer(pod: str, command: list[str], stdin: str) -> tuple[str, str, int]:
        return (left.pop(0) if len(left) > 1 else left[0]), errors, code

    found.answer = answer


def cluster_of(found: FakeCluster, name: str = NAME) -> dict[str, Any]:
    return found.objects[("clusters", name)]


def test_a_new_server_is_closed_from_the_first_manifest_on(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    for _ in range(2):
        backend.servers.initialize(SHARED)
        backend.servers.start(SHARED)
    assert cluster_of(found)["spec"]["postgresql"]["pg_hba"] == ["host all all all reject"]
    assert found.objects[("services", NAME)]["spec"]["ports"][0]["port"] == 15432


def test_a_server_is_ready_as_soon_as_postgresql_can_be_written_to(
    made: tuple[FakeCluster, KubernetesBackend],
) -> None:
    found, backend = made
    backend.servers.initialize(SHARED)
    answers(found, "f\n", "f\n", "t\n")
    eventually(lambda: backend.servers.await_ready(SHARED, 0).ready)


def test_a_fork_is_made_of_the_primary_of_now_and_not_of_the_one_that_a_watch_saw(
    made: tuple[FakeCluster, KubernetesBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, backend = made
    serving = {**STOPPED, "at": "2026-01-01T00:00:01.000000Z"}
    monkeypatch.setattr(waking, "position_of", lambda place, server: serving)
    backend.servers.initialize(SHARED)
    eventually(lambda: backend.place.primary_pod(SHARED.service_id) is not None)
    found.silent = True
    cluster = cluster_of(found)
    volume = found.objects[("persistentvolumeclaims", f"{NAME}-1")]
    found.put("persistentvolumeclaims", {**volume, "metadata": {**volume["metadata"], "name": f"{NAME}-2"}})
    cluster["status"]["currentPrimary"] = f"{NAME}-2"
    backend.restore.capture(FORK, Source(SHARED))
    backend.restore.take_snapshot(SHARED, "snapshot01", paused=False)
    for name in ("ramet-forkfork12-seed", f"{NAME}-snapshot01"):
        source = found.objects[("volumesnapshots", name)]["spec"]["source"]
        assert source == {"persistentVolumeClaimName": f"{NAME}-2"}


def test_what_a_start_waits_for_is_said(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    backend.servers.initialize(SHARED)
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    pod = found.objects[("pods", f"{NAME}-1")]
    statuses = [{"name": "postgres", "state": waiting}]
    found.put("pods", {**pod, "status": {"phase": "Pending", "containerStatuses": statuses}})
    eventually(lambda: "ImagePullBackOff: no such image" in backend.servers.await_ready(SHARED, 0).progress)
    assert not backend.servers.inspect(SHARED).serving


def test_a_server_is_open_when_it_asks_for_a_password_over_tls(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    backend.servers.initialize(SHARED)
    asked: list[list[str]] = []

    def answer(pod: str, command: list[str], stdin: str) -> tuple[str, str, int]:
        asked.append(command)
        return "", "FATAL: pg_hba" if len(asked) == 1 else "fe_sendauth: no password supplied", 2

    found.answer = answer
    backend.servers.open(SHARED)
    assert len(asked) == 2
    assert "sslmode=require" in asked[0][-1]
    assert cluster_of(found)["spec"]["postgresql"]["pg_hba"][-2:] == [
        "hostssl all all all scram-sha-256",
        "host all all all reject",
    ]


@pytest.mark.parametrize("phase", ["Cluster in healthy state", "Setting up primary"])
def test_a_server_is_stopped_whether_its_cluster_is_healthy_or_not(
    made: tuple[FakeCluster, KubernetesBackend], phase: str
) -> None:
    found, backend = made
    backend.servers.initialize(SHARED)
    eventually(lambda: backend.servers.inspect(SHARED).serving)
    found.phase = phase
    found.put("clusters", {**cluster_of(found), "status": {"phase": phase, "conditions": []}})
    answers(found, "", errors="no perl here", code=127)
    for _ in range(2):
        backend.servers.stop(SHARED)
    assert ("pods", f"{NAME}-1") not in found.objects
    seen = backend.servers.inspect(SHARED)
    assert (seen.serving, seen.reason) == (False, "Its server is stopped.")
    with pytest.raises(Unavailable):
        backend.servers.set_password(SHARED, SHARED.verifier)


def test_a_stopped_server_starts_closed_or_open(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    answers(found, "", errors="no perl here", code=127)
    backend.servers.initialize(SHARED)
    for clients, rules in ((False, 1), (True, 6)):
        backend.servers.stop(SHARED)
        backend.servers.start(SHARED, clients=clients)
        assert len(cluster_of(found)["spec"]["postgresql"]["pg_hba"]) == rules
        assert ("pods", f"{NAME}-1") in found.objects


@pytest.mark.parametrize("change", [{"size": Size(4000, 16)}, {"wal_level": WalLevel.LOGICAL}])
def test_a_server_that_cannot_start_after_a_change_starts_with_its_own_settings_again(
    made: tuple[FakeCluster, KubernetesBackend], change: dict[str, Any]
) -> None:
    found, backend = made
    answers(found, "", errors="no perl here", code=127)
    own = replace(SHARED, size=Size(500, 2))
    backend.servers.initialize(own)
    spec = cluster_of(found)["spec"]
    backend.servers.stop(own)
    backend.servers.start(replace(own, **change), clients=True)
    found.phase = "Waiting for the instances to become active"
    found.put("clusters", {**cluster_of(found), "status": {"phase": found.phase, "conditions": []}})
    pod = found.objects[("pods", f"{NAME}-1")]
    found.put("pods", {**pod, "status": {"phase": "Pending"}})
    eventually(lambda: "Pending" in backend.servers.inspect(own).reason)
    backend.servers.start(own, clients=True)
    assert cluster_of(found)["spec"]["resources"] == spec["resources"]
    assert cluster_of(found)["spec"]["postgresql"]["parameters"] == spec["postgresql"]["parameters"]
    assert found.objects[("pods", f"{NAME}-1")]["status"]["phase"] == "Running"
    asked = len(found.requests)
    backend.servers.start(own, clients=True)
    assert [verb for verb, _ in found.requests[asked:]] == ["GET"]


def test_a_server_that_serves_is_not_stopped_for_another_size(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    backend.servers.initialize(SHARED)
    eventually(lambda: backend.servers.inspect(SHARED).serving)
    backend.servers.start(replace(SHARED, size=Size(500, 2)), clients=True)
    assert "limits" not in cluster_of(found)["spec"]["resources"]


def test_a_server_without_a_volume_cannot_be_started(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    _, backend = made
    for first in (False, True):
        with pytest.raises(Failed) as failed:
            backend.servers.start(SHARED, first=first)
        assert failed.value.code == "VOLUME_LOST"


def test_nothing_of_a_destroyed_service_is_left(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    backend.servers.initialize(SHARED)
    answers(found, CONTROL)
    backend.restore.take_snapshot(SHARED, "snapshot01", paused=True)
    answers(found, "", errors="no perl here", code=127)
    backend.servers.initialize(FORK)
    for _ in range(2):
        backend.servers.destroy(SHARED.service_id)
    assert {name.split("-")[1] for kind, name in found.objects if kind != "namespaces"} == {FORK.service_id}
    assert backend.restore.snapshot_ids(SHARED.service_id) is None


def test_a_fork_of_now_adopts_a_volume_made_of_a_snapshot(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    answers(found, "", errors="no perl here", code=127)
    backend.servers.initialize(SHARED)
    captured = [backend.restore.capture(FORK, Source(SHARED)) for _ in range(2)]
    assert captured[0] == captured[1]
    volume = found.objects[("persistentvolumeclaims", "ramet-forkfork12-1")]
    assert volume["spec"]["dataSource"]["name"] == "ramet-forkfork12-seed"
    assert volume["spec"]["resources"]["requests"]["storage"] == "10Gi"
    assert volume["metadata"]["annotations"]["cnpg.io/nodeSerial"] == "1"
    fork = cluster_of(found, "ramet-forkfork12")
    assert fork["spec"]["postgresql"]["pg_hba"] == ["host all all all reject"]
    assert fork["spec"]["postgresql"]["parameters"]["max_logical_replication_workers"] == "0"
    written = [path for verb, path in found.requests if verb == "PATCH" and "forkfork12" in path]
    kinds = list(dict.fromkeys(path.split("/")[-2] for path in written))
    assert kinds == ["networkpolicies", "volumesnapshots", "persistentvolumeclaims", "services", "clusters"]


def test_a_server_that_stops_without_an_answer_keeps_no_position_of_an_earlier_stop(
    made: tuple[FakeCluster, KubernetesBackend],
) -> None:
    found, backend = made
    backend.servers.initialize(SHARED)
    eventually(lambda: backend.servers.inspect(SHARED).serving)
    cluster_of(found)["metadata"]["annotations"][names.FACTS_ANNOTATION] = "{}"
    answers(found, "", errors="no perl here", code=127)
    backend.servers.stop(SHARED)
    assert names.FACTS_ANNOTATION not in cluster_of(found)["metadata"]["annotations"]


def test_a_fork_of_a_snapshot_is_made_of_that(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    answers(found, CONTROL)
    backend.servers.initialize(SHARED)
    facts = backend.restore.take_snapshot(SHARED, "snapshot01", paused=True)
    assert facts == backend.restore.take_snapshot(SHARED, "snapshot01", paused=True)
    assert backend.restore.snapshot_ids(SHARED.service_id) == frozenset({"snapshot01"})
    answers(found, "", errors="no perl here", code=127)
    backend.restore.capture(FORK, Source(SHARED, snapshot_id="snapshot01"))
    volume = found.objects[("persistentvolumeclaims", "ramet-forkfork12-1")]
    assert volume["spec"]["dataSource"]["name"] == "ramet-abcdefghij-snapshot01"
    backend.restore.delete_snapshot(SHARED.service_id, "snapshot01")
    with pytest.raises(Failed) as lost:
        backend.restore.capture(replace(FORK, service_id="otherother"), Source(SHARED, snapshot_id="snapshot01"))
    assert lost.value.code == "SNAPSHOT_LOST"


def test_a_role_that_the_operator_changes_at_the_same_time_is_taken_over_once_more(
    made: tuple[FakeCluster, KubernetesBackend],
) -> None:
    found, backend = made
    backend.servers.initialize(SHARED)
    said = [("", "ERROR:  tuple concurrently updated", 3), ("", "", 0)]
    found.answer = lambda pod, command, stdin: said.pop(0)
    securing.take_over(backend.place, SHARED.service_id)
    said.append(("", "ERROR:  out of memory", 3))
    with pytest.raises(Unavailable, match="ended with 3"):
        securing.take_over(backend.place, SHARED.service_id)


def test_where_a_job_makes_the_volume_the_fork_names_its_snapshot_until_it_is_open() -> None:
    with in_cluster(forks=Forks.RECOVER) as (found, place):
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        captured = [backend.restore.capture(FORK, Source(SHARED)) for _ in range(2)]
        assert captured[0] == captured[1]
        bootstrap = cluster_of(found, "ramet-forkfork12")["spec"]["bootstrap"]
        assert bootstrap["recovery"]["volumeSnapshots"]["storage"]["name"] == "ramet-forkfork12-seed"
        assert "source" not in bootstrap["recovery"]
        answers(found, "", errors="fe_sendauth: no password supplied", code=2)
        backend.servers.open(FORK)
        assert set(cluster_of(found, "ramet-forkfork12")["spec"]["bootstrap"]) == {"initdb"}


@pytest.mark.parametrize("forks", [Forks.ADOPT, Forks.RECOVER])
def test_the_snapshot_that_a_fork_was_made_of_goes_when_it_is_open(forks: Forks) -> None:
    with in_cluster(forks=forks) as (found, place):
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        backend.restore.capture(FORK, Source(SHARED))
        assert ("volumesnapshots", "ramet-forkfork12-seed") in found.objects
        answers(found, "", errors="fe_sendauth: no password supplied", code=2)
        backend.servers.open(FORK)
        assert ("volumesnapshots", "ramet-forkfork12-seed") not in found.objects


@pytest.mark.parametrize(("can_grow", "size"), [(True, "20Gi"), (False, "10Gi")])
def test_a_volume_grows_with_the_setting_at_the_next_start_where_it_can(can_grow: bool, size: str) -> None:
    with in_cluster() as (found, place):
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        found.put(
            "storageclasses", {"metadata": {"name": "a", "annotations": default}, "allowVolumeExpansion": can_grow}
        )
        KubernetesBackend(place).servers.initialize(SHARED)
        larger = KubernetesBackend(replace(place, site=replace(place.site, volume_gbs=20)))
        answers(found, "", errors="no perl here", code=127)
        larger.servers.stop(SHARED)
        larger.servers.start(SHARED)
        assert cluster_of(found)["spec"]["storage"]["size"] == size
        larger.place.clusters.stop()
        larger.place.pods.stop()


def test_what_kubernetes_refuses_is_said_with_its_reason(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    found.refused = {"clusters": 422}
    with pytest.raises(Failed, match="admission webhook denied") as refused:
        backend.servers.initialize(SHARED)
    assert refused.value.code == "KUBERNETES_REFUSED"
    found.refused = {"clusters": 503}
    with pytest.raises(Unavailable):
        backend.servers.initialize(SHARED)


def test_the_health_of_servers_costs_no_request(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    backend.servers.initialize(SHARED)
    eventually(lambda: backend.servers.inspect(SHARED).serving)
    backend.servers.inspect(SHARED)
    eventually(lambda: sum("watch" in path or verb == "GET" for verb, path in found.requests) >= 4)
    asked = len(found.requests)
    for _ in range(100):
        assert backend.servers.inspect(SHARED).serving
    assert len(found.requests) == asked


def test_a_server_that_a_silent_watch_has_not_seen_is_not_lost(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    assert backend.servers.inspect(SHARED).is_lost
    found.silent = True
    backend.servers.initialize(SHARED)
    assert not backend.servers.inspect(SHARED).is_lost
    found.remove("clusters", NAME)
    assert backend.servers.inspect(SHARED).is_lost


def test_what_this_backend_lacks_is_refused_with_a_remedy(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    _, backend = made
    with pytest.raises(Invalid, match="The backend for Kubernetes has no"):
        backend.subscriptions.observe(SHARED)
    with pytest.raises(Invalid, match="The backend for Kubernetes has no"):
        backend.upgrades.examine(SHARED, 18)
