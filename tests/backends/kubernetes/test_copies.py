"""Forks and replicas where the storage takes no snapshots, over an API server in memory that does not know them."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Primary, Source
from ramet.backends.kubernetes import waking
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.resources import Volume
from ramet.backends.kubernetes.site import Forks
from ramet.errors import Failed, Invalid
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster, running_pod
from tests.backends.kubernetes.past_world import STOPPED
from tests.backends.kubernetes.servers import SHARED

FORK = replace(SHARED, service_id="forkfork12", port=15433)
NAME = "ramet-forkfork12"
JOB = ("pods", f"{NAME}-1-pgbasebackup")


@pytest.fixture
def made() -> Iterator[tuple[FakeCluster, KubernetesBackend]]:
    with in_cluster(forks=Forks.COPY) as (found, place):
        found.unknown = {"volumesnapshots"}
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        eventually(lambda: place.primary_pod(SHARED.service_id) is not None)
        found.copies_at_once = False
        yield found, backend


def test_a_fork_is_a_copy_that_is_closed_from_its_first_manifest_on(
    made: tuple[FakeCluster, KubernetesBackend],
) -> None:
    found, backend = made
    place = backend.place
    place.api.patch(Volume, "ramet-abcdefghij-1", _requests("30Gi"))
    asked: list[tuple[str, str]] = []

    def answer(pod: str, command: list[str], stdin: str) -> tuple[str, str, int]:
        asked.append((pod, stdin))
        return ("5 of 9 MB of service abcdefghij were sent", "", 0)

    found.answer = answer
    eventually(lambda: "5 of 9 MB" in str(backend.copies.make(FORK, Source(SHARED))))
    spec = found.objects["clusters", NAME]["spec"]
    assert spec["bootstrap"]["pg_basebackup"]["source"] == "origin"
    assert spec["externalClusters"][0]["connectionParameters"]["host"] == "ramet-abcdefghij-rw"
    assert spec["postgresql"]["pg_hba"] == ["host all all all reject"]
    assert spec["postgresql"]["parameters"]["max_logical_replication_workers"] == "0"
    assert spec["storage"]["size"] == "30Gi"
    written = [path for verb, path in found.requests if verb == "PATCH" and "forkfork12" in path]
    assert [path.split("/")[-2] for path in written] == ["networkpolicies", "services", "clusters"]
    (pod, statements), *others = asked
    assert (pod, others) == ("ramet-abcdefghij-1", [])  # it is asked now and then only
    assert "CHECKPOINT" in statements


def _requests(size: str) -> dict[str, object]:
    return {"spec": {"resources": {"requests": {"storage": size}}}}


def test_a_copy_is_complete_when_its_job_is_over(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    assert backend.copies.make(FORK, Source(SHARED)) is not None
    found.copies_at_once = True
    found.remove(*JOB)
    found.put("clusters", found.objects["clusters", NAME])
    eventually(lambda: backend.copies.make(FORK, Source(SHARED)) is None)
    captured = [backend.restore.capture(FORK, Source(SHARED)) for _ in range(2)]
    assert captured[0] == captured[1]
    assert captured[0] is not None
    assert captured[0].facts["method"] == "pg_basebackup"
    assert json.loads(found.objects["persistentvolumeclaims", f"{NAME}-1"]["metadata"]["annotations"]["ramet/facts"])
    found.answer = lambda pod, command, stdin: ("", "fe_sendauth: no password supplied", 2)
    backend.servers.open(FORK)
    spec = found.objects["clusters", NAME]["spec"]
    assert (set(spec["bootstrap"]), spec.get("externalClusters")) == ({"initdb"}, None)
    backend.servers.destroy(FORK.service_id)
    assert not [key for key in found.objects if NAME in key[1]]
    assert backend.restore.snapshot_ids(SHARED.service_id) == frozenset()


def test_a_copy_has_at_least_what_was_committed_before_it_was_begun(
    made: tuple[FakeCluster, KubernetesBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, backend = made
    seen = {**STOPPED, "end_lsn": "0/1000028", "at": "2026-01-01T00:00:01.000000Z"}
    monkeypatch.setattr(waking, "position_of", lambda place, server: seen)
    backend.copies.make(FORK, Source(SHARED))
    seen = {**STOPPED, "end_lsn": "0/9000028", "at": "2026-01-01T00:09:00.000000Z"}
    backend.copies.make(FORK, Source(SHARED))
    found.copies_at_once = True
    found.put("clusters", found.objects["clusters", NAME])
    captured = backend.restore.capture(FORK, Source(SHARED))
    assert captured is not None
    assert (captured.facts["base_time"], captured.facts["end_lsn"]) == ("2026-01-01T00:00:01.000000Z", "0/1000028")


def test_a_copy_that_fails_says_why(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    said = json.dumps({"level": "error", "msg": "Unable to bootstrap cluster", "error": "no room is left"})
    found.answer = lambda pod, command, stdin: (said if command == ["log"] else "", "", 0)
    backend.copies.make(FORK, Source(SHARED))
    for n in range(3):
        pod = found.objects[JOB]["metadata"]
        failed = {"metadata": {**pod, "name": f"{JOB[1]}-{n}"}, "status": {"phase": "Failed"}}
        found.put("pods", failed)
    with pytest.raises(Failed, match="The copy of service abcdefghij failed") as error:
        eventually(lambda: backend.copies.make(FORK, Source(SHARED)) is None)
    assert "no room is left" in error.value.details


def test_what_needs_a_snapshot_or_a_stopped_parent_is_refused(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    _, backend = made
    assert backend.copies.are_needed()
    stopped = Source(SHARED, paused=True)
    with pytest.raises(Invalid, match="takes no snapshots: only a server that runs can be copied") as error:
        backend.restore.check_fork(stopped, None)
    assert error.value.details == "Start it, then fork it."
    with pytest.raises(Invalid):
        backend.copies.make(FORK, stopped)
    backend.restore.check_fork(Source(SHARED), None)


def test_a_replica_is_a_copy_too_and_says_how_far_it_is(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    primary = Primary(SHARED.service_id, SHARED.port, "replicaset1", 15442)
    replica = replace(SHARED, service_id="replica001", port=15440, primary=primary)
    assert backend.replicas.create(replica)
    assert set(found.objects["clusters", "ramet-replica001"]["spec"]["bootstrap"]) == {"pg_basebackup"}
    eventually(lambda: "pgbasebackup is Running" in backend.servers.await_ready(replica, 0).progress)
    found.copies_at_once = True
    found.put("pods", {"metadata": {"name": "ramet-replica001-1", "labels": {}}, "status": running_pod()})
