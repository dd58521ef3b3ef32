"""What forks may connect to, over an API server in memory: nothing until they are secured, and then what is allowed."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Primary, Server, Source
from ramet.backends.kubernetes import egress, names
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.kubernetes.policies import ApiAddress
from ramet.configured import kubernetes_backend
from ramet.errors import Invalid, Unseen
from ramet.model.environment import Environment
from ramet.settings import load_settings
from tests.backends.kubernetes.api_server import api_server, in_cluster, kubeconfig
from tests.backends.kubernetes.fake_cluster import FakeCluster
from tests.backends.kubernetes.servers import SHARED

FORK = replace(SHARED, service_id="forkfork12", port=15433)
POLICIES = ("ramet-forkfork12-egress", "ramet-replica001-egress")


def fork_in(environment: str) -> Server:
    return replace(FORK, environment=Environment(environment), is_dev_fork=environment == "DEV")


def refuse_clients_without_passwords(found: FakeCluster) -> None:
    found.answer = lambda pod, command, stdin: ("", "fe_sendauth: no password supplied", 2)


@pytest.mark.parametrize(
    ("environment", "fork_egress", "rules"),
    [("DEV", "allow", None), ("PROD", "deny", None), ("DEV", "deny", 3), ("DEV", "10.0.0.0/8,192.0.2.7/32", 4)],
)
def test_a_fork_connects_to_nothing_until_it_is_secured(environment: str, fork_egress: str, rules: int | None) -> None:
    with in_cluster(fork_egress=fork_egress) as (found, place):
        backend = KubernetesBackend(place)
        refuse_clients_without_passwords(found)
        backend.servers.initialize(SHARED)
        fork = fork_in(environment)
        backend.restore.capture(fork, Source(SHARED))
        key = ("networkpolicies", "ramet-forkfork12-egress")
        assert found.objects[key]["spec"]["policyTypes"] == ["Egress"]
        (only,) = found.objects[key]["spec"]["egress"]
        assert only["to"][0]["ipBlock"]["cidr"] == "127.0.0.1/32"
        backend.servers.open(fork)
        backend.servers.open(SHARED)
        policies = {name: one["spec"]["egress"] for (kind, name), one in found.objects.items() if kind == key[0]}
        assert {name: len(one) for name, one in policies.items()} == ({} if rules is None else {key[1]: rules})


def test_forks_that_connect_to_nothing_are_refused_with_an_archive(tmp_path: Path) -> None:
    """Their WAL would never reach it, and PostgreSQL keeps what is not archived until the volume is full."""
    with api_server() as (found, _):
        (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig(found.url)))
        environ = {"RAMET_BACKEND": "kubernetes", "RAMET_KUBECONFIG": str(tmp_path / "kubeconfig")}
        refused = environ | {"RAMET_ARCHIVE_URL": "s3://backups/ramet", "RAMET_KUBERNETES_FORK_EGRESS": "deny"}
        with pytest.raises(Invalid, match="RAMET_KUBERNETES_FORK_EGRESS cannot be deny with RAMET_ARCHIVE_URL"):
            kubernetes_backend(load_settings(refused))
        for change in ({"RAMET_KUBERNETES_FORK_EGRESS": "10.0.0.0/8"}, {"RAMET_ARCHIVE_URL": ""}):
            kubernetes_backend(load_settings(refused | change)).close()


def move_api_server(found: FakeCluster, host: str) -> None:
    labels = {"kubernetes.io/service-name": "kubernetes"}
    slice_of = {"metadata": {"name": "kubernetes", "labels": labels}, "ports": [{"port": 6443}]}
    found.put("endpointslices", {**slice_of, "endpoints": [{"addresses": [host]}]})


def api_servers(found: FakeCluster) -> dict[str, str]:
    """Return where each policy says that the API server is."""
    policies = [one for (kind, _), one in found.objects.items() if kind == "networkpolicies"]
    return {
        one["metadata"]["name"]: one["spec"]["egress"][0]["to"][0]["ipBlock"]["cidr"].partition("/")[0]
        for one in policies
    }


def open_fork_and_replica(found: FakeCluster, backend: KubernetesBackend) -> tuple[Server, Server]:
    """Return a restricted fork that is open to clients, and a read replica of it."""
    refuse_clients_without_passwords(found)
    fork = fork_in("DEV")
    replica = replace(fork, service_id="replica001", primary=Primary("forkfork12", FORK.port))
    backend.servers.initialize(SHARED)
    backend.restore.capture(fork, Source(SHARED))
    backend.servers.open(fork)
    egress.follow(backend.servers.place, replica.service_id, fork.service_id)
    backend.servers.place.apply(replica, Phase.OPEN)
    await_watched(backend.servers.place, replica)
    return fork, replica


def await_watched(place: Place, server: Server) -> None:
    eventually(lambda: place.clusters.get(names.cluster_name(server.service_id)) is not None)


def test_a_restricted_fork_and_its_replica_reach_the_api_server_where_it_has_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def maintain() -> dict[str, str]:
        for server in (SHARED, fork, replica):
            backend.servers.maintain(server, 0.1, datetime.now(UTC))
        return api_servers(found)

    with in_cluster(fork_egress="deny") as (found, place):
        backend = KubernetesBackend(place)
        move_api_server(found, "192.0.2.1")
        fork, replica = open_fork_and_replica(found, backend)
        assert maintain() == dict.fromkeys(POLICIES, "192.0.2.1")
        move_api_server(found, "192.0.2.2")
        assert maintain() == dict.fromkeys(POLICIES, "192.0.2.1")  # it is asked once a minute
        monkeypatch.setattr(egress, "_LOOK_SECONDS", -1.0)
        assert maintain() == dict.fromkeys(POLICIES, "192.0.2.2")
        asked = len(found.requests)
        maintain()
        assert [path for _, path in found.requests[asked:] if "networkpolicies" in path] == []


def test_a_fork_that_is_down_is_started_with_the_api_server_where_it_has_moved() -> None:
    """The duty of maintenance leaves out what is being restarted."""
    with in_cluster(fork_egress="deny") as (found, place):
        backend = KubernetesBackend(place)
        move_api_server(found, "192.0.2.1")
        fork, replica = open_fork_and_replica(found, backend)
        move_api_server(found, "192.0.2.2")
        backend.servers.start(fork)
        assert api_servers(found) == dict.fromkeys(POLICIES, "192.0.2.1")  # a server closed to clients may be unsecured
        for server in (fork, replica):
            backend.servers.start(server, clients=True)
        assert api_servers(found) == dict.fromkeys(POLICIES, "192.0.2.2")


def test_an_api_server_that_does_not_answer_is_asked_again_at_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def addresses() -> list[ApiAddress]:
        raise Unseen("KUBERNETES_UNREACHABLE", "The API server of Kubernetes did not answer")

    with in_cluster(fork_egress="deny") as (found, place):
        backend = KubernetesBackend(place)
        move_api_server(found, "192.0.2.1")
        fork, replica = open_fork_and_replica(found, backend)
        move_api_server(found, "192.0.2.2")
        with monkeypatch.context() as patch:
            patch.setattr(place.api, "addresses", addresses)
            backend.servers.maintain(fork, 0.1, datetime.now(UTC))
        for server in (fork, replica):
            backend.servers.maintain(server, 0.1, datetime.now(UTC))
        assert api_servers(found) == dict.fromkeys(POLICIES, "192.0.2.2")


@pytest.mark.parametrize(
    ("environment", "fork_egress", "policies"), [("PROD", "deny", ()), ("DEV", "allow", ()), ("DEV", "deny", POLICIES)]
)
def test_a_policy_is_renewed_by_what_its_fork_is_now_and_deleted_where_it_restricts_nothing(
    environment: str, fork_egress: str, policies: tuple[str, ...]
) -> None:
    with in_cluster(fork_egress="deny") as (found, place):
        move_api_server(found, "192.0.2.1")
        _, replica = open_fork_and_replica(found, KubernetesBackend(place))
        move_api_server(found, "192.0.2.2")
        later = KubernetesBackend(replace(place, site=replace(place.site, fork_egress=fork_egress)))
        now = fork_in(environment)
        for server in (now, replace(replica, is_dev_fork=now.is_dev_fork)):
            later.servers.renewal.renew(server)
        assert api_servers(found) == dict.fromkeys(policies, "192.0.2.2")


def test_an_open_fork_and_its_replica_are_restricted_once_the_setting_says_so() -> None:
    with in_cluster(fork_egress="allow") as (found, place):
        fork, replica = open_fork_and_replica(found, KubernetesBackend(place))
        assert api_servers(found) == {}
        later = KubernetesBackend(replace(place, site=replace(place.site, fork_egress="deny")))
        for server in (SHARED, replica, fork):
            later.servers.maintain(server, 0.1, datetime.now(UTC))
        assert api_servers(found) == dict.fromkeys(POLICIES, "127.0.0.1")


def test_an_open_fork_is_restricted_while_its_environment_is_dev() -> None:
    with in_cluster(fork_egress="deny") as (found, place):
        backend = KubernetesBackend(place)
        refuse_clients_without_passwords(found)
        backend.servers.initialize(SHARED)
        fork = fork_in("PROD")
        backend.restore.capture(fork, Source(SHARED))
        backend.servers.open(fork)
        assert api_servers(found) == {}
        await_watched(place, fork)
        for environment, policies in (("DEV", POLICIES[:1]), ("PROD", ())):
            backend.servers.maintain(fork_in(environment), 0.1, datetime.now(UTC))
            assert tuple(api_servers(found)) == policies


def test_a_service_that_was_deleted_gets_no_policy_of_a_maintenance_that_is_late() -> None:
    with in_cluster(fork_egress="deny") as (found, place):
        backend = KubernetesBackend(place)
        fork, _ = open_fork_and_replica(found, backend)
        backend.servers.maintain(fork, 0.1, datetime.now(UTC))
        backend.servers.destroy(fork.service_id)
        eventually(lambda: place.clusters.get("ramet-forkfork12") is None)
        backend.servers.maintain(fork, 0.1, datetime.now(UTC))
        assert tuple(api_servers(found)) == POLICIES[1:]
