"""Standbys, read replicas and poolers, over an API server in memory: what is applied, and what is left."""

import base64
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Primary, Server, Source
from ramet.backends.kubernetes import copies, names, poolers, rolling, snapshots
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.errors import Failed, Unavailable
from ramet.model.high_availability import NO_STANDBYS, Standbys
from ramet.model.size import Size
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster, running_pod
from tests.backends.kubernetes.servers import SHARED, report

NAME = "ramet-abcdefghij"
SIZED = replace(SHARED, size=Size(500, 2), host="ramet-replica001.services.svc")
REPLICAS = [
    replace(SIZED, service_id=name, port=port, primary=Primary("abcdefghij", 15432, "replica001", 15450))
    for name, port in (("replica001", 15440), ("replica002", 15441))
]
MADE = tuple[FakeCluster, KubernetesBackend]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[MADE]:
    """Return a cluster with a service, whose servers ask every client for a password."""
    monkeypatch.setattr(poolers, "ensure_pooler_role_of", lambda paths: None)
    monkeypatch.setattr(poolers.KubernetesPoolers, "check_database", lambda self, server: None)
    with in_cluster() as (found, place):
        found.answer = lambda pod, command, stdin: (
            report(follows=True) if "pg_stat_archiver" in stdin else "t\n",
            "fe_sendauth: no password supplied",
            int("-wXAtc" in command),
        )
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        backend.servers.open(SHARED)
        yield found, backend


def test_standbys_are_instances_and_go_again(made: MADE) -> None:
    found, backend = made
    server = replace(SHARED, standbys=Standbys(2))
    backend.replicas.check_standbys(server.standbys)
    assert "cnpg.io/instanceRole" not in selector_of(found)
    asked = len(found.requests)
    backend.replicas.set_standbys(server, 0)
    kinds = [path.split("/")[-2] for verb, path in found.requests[asked:] if verb == "PATCH"]
    assert kinds == ["services", "clusters"]
    spec = found.objects[("clusters", NAME)]["spec"]
    assert (spec["instances"], spec["enablePDB"]) == (3, True)
    eventually(lambda: backend.replicas.set_standbys(server, 0) == "1 volumes are there, and 3 are wanted")
    for n in (2, 3):
        labels = {"cnpg.io/cluster": NAME}
        found.put("persistentvolumeclaims", {"metadata": {"name": f"{NAME}-{n}", "labels": labels}})
    assert backend.replicas.set_standbys(server, 5) is None
    backend.replicas.set_standbys(SHARED, 0)
    assert found.objects[("clusters", NAME)]["spec"]["instances"] == 1
    assert SHARED.standbys == NO_STANDBYS
    assert selector_of(found)["cnpg.io/instanceRole"] == "primary"  # the standbys are still there for a while


def test_the_progress_changes_while_a_standby_is_copied(made: MADE, monkeypatch: pytest.MonkeyPatch) -> None:
    found, backend = made
    monkeypatch.setattr(copies, "_LOOK_SECONDS", 0.0)
    server, sent = replace(SHARED, standbys=Standbys(1)), "1 of 9 MB were sent"
    found.answer = lambda pod, command, stdin: (sent, "", 0)
    labels = names.labels_of(SHARED.service_id)
    found.put("pods", {"metadata": {"name": f"{NAME}-2-join-x", "labels": labels}, "status": {"phase": "Running"}})
    awaited = "1 volumes are there, and 2 are wanted"
    eventually(lambda: backend.replicas.set_standbys(server, 0) == f"{awaited}; {sent}")
    sent = "2 of 9 MB were sent"
    assert backend.replicas.set_standbys(server, 0) == f"{awaited}; {sent}"
    sent = ""
    assert backend.replicas.set_standbys(server, 0) == awaited


def selector_of(found: FakeCluster) -> dict[str, str]:
    return dict(found.objects[("services", NAME)]["spec"]["selector"])


def test_a_fork_gets_standbys_without_a_restart(made: MADE) -> None:
    found, backend = made
    fork = replace(SHARED, service_id="forkfork12", standbys=Standbys(1))
    backend.restore.capture(fork, Source(SHARED))
    for _ in range(2):
        backend.replicas.set_standbys(fork, 0)
    spec = found.objects[("clusters", "ramet-forkfork12")]["spec"]
    assert spec["instances"] == 2
    assert spec["postgresql"]["parameters"]["max_logical_replication_workers"] == "0"


def test_servers_with_standbys_are_resized_one_after_another(made: MADE, monkeypatch: pytest.MonkeyPatch) -> None:
    found, backend = made
    monkeypatch.setattr(rolling, "_WATCH_SECONDS", 0.0)
    assert not backend.servers.resize(replace(SHARED, size=Size(1000, 2)))
    server = replace(SHARED, standbys=Standbys(1), size=Size(1000, 2), pooler_port=15460)
    backend.poolers.start([replace(SHARED, pooler_port=15460)], 15460)
    before = pool_size_of(found)
    with pytest.raises(Unavailable, match="0 of 2 servers"):
        backend.servers.resize(server)
    limits = {"cpu": "1", "memory": "2Gi"}  # as Kubernetes writes 1000m
    for n in (1, 2):
        by_limit_range = {**limits, "ephemeral-storage": "1Gi"}
        container = {"name": "postgres", "resources": {"requests": limits, "limits": by_limit_range}}
        metadata = {"name": f"{NAME}-{n}", "labels": {"ramet/service": SHARED.service_id}}
        found.put("pods", {"metadata": metadata, "spec": {"containers": [container]}, "status": running_pod()})
    assert pool_size_of(found) == before
    eventually(lambda: is_resized(backend, server), "two servers of the new size")
    assert int(pool_size_of(found)) > int(before)


def test_a_cluster_that_is_gone_is_not_made_again_empty(made: MADE) -> None:
    found, backend = made
    server = replace(SHARED, standbys=Standbys(1), size=Size(1000, 2))
    found.remove("clusters", NAME)
    asked = len(found.requests)
    for change in (
        lambda: backend.servers.resize(server),
        lambda: backend.replicas.set_standbys(server, 0),
        lambda: backend.servers.open(server),
    ):
        with pytest.raises(Failed) as failed:
            change()
        assert failed.value.code == "VOLUME_LOST"
    assert [path for verb, path in found.requests[asked:] if verb == "PATCH"] == []


def pool_size_of(found: FakeCluster) -> str:
    text = found.objects[("configmaps", f"{NAME}-pooler")]["data"]["pgbouncer.ini"]
    return str(text).split("pool_size=")[1].split()[0]


def is_resized(backend: KubernetesBackend, server: Server) -> bool:
    with suppress(Unavailable):
        return backend.servers.resize(server)
    return False


def test_replicas_begin_with_a_snapshot_and_have_one_endpoint(made: MADE) -> None:
    found, backend = made
    for _ in range(2):
        assert all(backend.replicas.create(one) for one in REPLICAS)
    assert ("volumesnapshots", "ramet-replica002-seed") in found.objects
    for one in REPLICAS:
        backend.servers.start(one, clients=True)
        assert backend.servers.await_ready(one, 5).ready
        backend.servers.open(one)
        assert backend.servers.inspect(one).follows
    backend.replicas.start_balancer(REPLICAS, 15450)
    service = found.objects[("services", "ramet-replica001")]["spec"]
    assert service["ports"][0]["port"] == 15450
    assert service["selector"] == {"ramet/replica-set": "replica001", "cnpg.io/instanceRole": "primary"}
    assert ("services", "ramet-replica002") not in found.objects
    assert not [name for kind, name in found.objects if kind == "volumesnapshots"]
    cluster = found.objects[("clusters", "ramet-replica002")]
    assert cluster["spec"]["storage"]["size"] == "10Gi"
    assert cluster["metadata"]["labels"] == {"ramet/service": "replica002"}
    for one in REPLICAS:
        backend.servers.stop(one)
        backend.servers.destroy(one.service_id)
    assert not [name for _, name in found.objects if "replica" in name]


def test_what_a_copy_that_was_given_up_leaves_of_a_replica_is_destroyed_though_it_has_no_cluster(made: MADE) -> None:
    found, backend = made
    volume = found.objects[("persistentvolumeclaims", f"{NAME}-1")]["metadata"]["name"]
    snapshots.take(backend.place, REPLICAS[0].service_id, "ramet-replica001-seed", volume)
    assert backend.servers.inspect(REPLICAS[0]).is_lost
    backend.servers.destroy(REPLICAS[0].service_id)
    assert ("volumesnapshots", "ramet-replica001-seed") not in found.objects


@pytest.mark.parametrize(("fork_egress", "restricted"), [("deny", True), ("allow", False)])
def test_replicas_of_a_fork_connect_to_what_the_fork_may_connect_to(
    made: MADE, fork_egress: str, restricted: bool
) -> None:
    found, first = made
    backend = KubernetesBackend(replace(first.place, site=replace(first.place.site, fork_egress=fork_egress)))
    fork = replace(SHARED, service_id="forkfork12", is_dev_fork=True)
    primary = Primary("forkfork12", 15432, "replica001", 15450)
    replica = replace(REPLICAS[0], primary=primary, is_dev_fork=True)
    backend.restore.capture(fork, Source(SHARED))
    backend.servers.open(fork)
    eventually(lambda: backend.replicas.create(replica))
    key = ("networkpolicies", "ramet-replica001-egress")
    assert (key in found.objects) == restricted
    written = [path.split("/")[-2] for verb, path in found.requests if verb == "PATCH" and "replica001" in path]
    assert not restricted or written.index("networkpolicies") < written.index("clusters")
    backend.servers.open(replace(replica, is_dev_fork=False))
    assert key not in found.objects
    backend.replicas.create(REPLICAS[1])
    assert ("networkpolicies", "ramet-replica002-egress") not in found.objects
    backend.place.clusters.stop()
    backend.place.pods.stop()


def test_no_replica_is_made_while_its_service_is_down(made: MADE) -> None:
    found, backend = made
    found.remove("pods", f"{NAME}-1")
    eventually(lambda: not backend.servers.inspect(SHARED).serving)
    assert not backend.replicas.create(REPLICAS[0])
    assert ("clusters", "ramet-replica001") not in found.objects


def pooled(found: FakeCluster) -> list[str]:
    return sorted(kind for kind, name in found.objects if "pooler" in name)


def test_a_pooler_has_its_own_objects_and_goes_with_its_server(made: MADE) -> None:
    found, backend = made
    server = replace(SHARED, pooler_port=15460)
    for _ in range(2):
        backend.poolers.start([server], 15460)
    assert pooled(found) == ["configmaps", "deployments", "pods", "services"]
    assert found.objects[("services", f"{NAME}-pooler")]["spec"]["ports"][0]["port"] == 15460
    assert backend.poolers.serves(server.service_id)
    asked = len(found.requests)
    assert backend.poolers.serves(server.service_id)
    assert len(found.requests) == asked
    backend.servers.stop(server)
    assert pooled(found) == []
    assert not backend.poolers.serves(server.service_id)


@pytest.mark.parametrize("servers", [[replace(SHARED, pooler_port=15460)], REPLICAS], ids=["service", "set"])
def test_the_pods_of_a_pooler_are_replaced_when_its_certificate_is_renewed(made: MADE, servers: list[Server]) -> None:
    found, backend = made
    owner = servers[0].service_id
    for one in REPLICAS:
        backend.replicas.create(one)
    eventually(lambda: backend.place.primary_pod(owner) is not None)
    issue(found, owner, "first")
    backend.poolers.start(servers, 15460)
    eventually(lambda: backend.poolers.serves(owner))
    before, now = certificate_of(found, owner), datetime.now(UTC)
    backend.servers.maintain(servers[0], 1.0, now)
    assert certificate_of(found, owner) == before
    issue(found, owner, "second")
    asked = len(found.requests)
    backend.servers.maintain(servers[0], 1.0, now)
    assert not [path for _, path in found.requests[asked:] if "secrets" in path]  # it is read once a day
    backend.poolers._due_at[owner] = 0.0
    backend.servers.maintain(servers[0], 1.0, now)
    assert before != certificate_of(found, owner) != ""


def issue(found: FakeCluster, owner: str, certificate: str) -> None:
    data = {"tls.crt": base64.b64encode(certificate.encode()).decode()}
    found.put(
        "secrets", {"metadata": {"name": f"ramet-{owner}-server", "labels": {"ramet/service": owner}}, "data": data}
    )


def certificate_of(found: FakeCluster, owner: str) -> str:
    template = found.objects[("deployments", f"ramet-{owner}-pooler")]["spec"]["template"]
    return str(template["metadata"]["annotations"]["ramet/certificate"])


def test_a_pooler_of_a_set_leads_to_all_of_its_servers(made: MADE) -> None:
    found, backend = made
    for one in REPLICAS:
        backend.replicas.create(one)
    backend.poolers.start(REPLICAS, 15461)
    text = found.objects[("configmaps", "ramet-replica001-pooler")]["data"]["pgbouncer.ini"]
    assert "tsdb = host=ramet-replica001-rw,ramet-replica002-rw " in text
    backend.poolers.stop("replica001")
    assert pooled(found) == []


def test_a_pooler_that_cannot_start_says_so_at_once(made: MADE) -> None:
    found, backend = made
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    statuses = [{"name": "pgbouncer", "state": waiting}]
    labels = {"ramet/service": SHARED.service_id, "ramet/pooler": SHARED.service_id}
    status = {"phase": "Pending", "containerStatuses": statuses}
    found.put("pods", {"metadata": {"name": f"{NAME}-pooler-1", "labels": labels}, "status": status})
    with pytest.raises(Failed, match="cannot start") as failed:
        backend.poolers.start([replace(SHARED, pooler_port=1)], 15460)
    assert "no such image" in failed.value.details
