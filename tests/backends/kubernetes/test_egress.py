"""What forks may connect to, over an API server in memory: nothing until they are secured, and then what is allowed."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ramet.backends.interface.values import Primary, Source
from ramet.backends.kubernetes import egress
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.model.environment import Environment
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster
from tests.backends.kubernetes.servers import SHARED

FORK = replace(SHARED, service_id="forkfork12", port=15433)


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
        fork = replace(FORK, environment=Environment(environment))
        backend.restore.capture(fork, Source(SHARED))
        key = ("networkpolicies", "ramet-forkfork12-egress")
        assert found.objects[key]["spec"]["policyTypes"] == ["Egress"]
        (only,) = found.objects[key]["spec"]["egress"]
        assert only["to"][0]["ipBlock"]["cidr"] == "127.0.0.1/32"
        backend.servers.open(fork)
        backend.servers.open(SHARED)
        policies = {name: one["spec"]["egress"] for (kind, name), one in found.objects.items() if kind == key[0]}
        assert {name: len(one) for name, one in policies.items()} == ({} if rules is None else {key[1]: rules})


def test_a_restricted_fork_and_its_replica_reach_the_api_server_where_it_has_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def move(host: str) -> None:
        labels = {"kubernetes.io/service-name": "kubernetes"}
        slice_of = {"metadata": {"name": "kubernetes", "labels": labels}, "ports": [{"port": 6443}]}
        found.put("endpointslices", {**slice_of, "endpoints": [{"addresses": [host]}]})

    def maintain() -> dict[str, str]:
        """Maintain the servers; return where each policy says that the API server is."""
        for server in (SHARED, fork, replica):
            backend.servers.maintain(server, 0.1, datetime.now(UTC))
        policies = [one for (kind, _), one in found.objects.items() if kind == "networkpolicies"]
        return {
            one["metadata"]["name"]: one["spec"]["egress"][0]["to"][0]["ipBlock"]["cidr"].partition("/")[0]
            for one in policies
        }

    with in_cluster(fork_egress="deny") as (found, place):
        backend = KubernetesBackend(place)
        refuse_clients_without_passwords(found)
        fork = replace(FORK, environment=Environment.DEV)
        replica = replace(fork, service_id="replica001", primary=Primary("forkfork12", FORK.port))
        move("192.0.2.1")
        backend.servers.initialize(SHARED)
        backend.restore.capture(fork, Source(SHARED))
        backend.servers.open(fork)
        egress.follow(place, replica.service_id, fork.service_id)
        names = ("ramet-forkfork12-egress", "ramet-replica001-egress")
        assert maintain() == dict.fromkeys(names, "192.0.2.1")
        move("192.0.2.2")
        assert maintain() == dict.fromkeys(names, "192.0.2.1")  # it is asked once a minute
        monkeypatch.setattr(egress, "_LOOK_SECONDS", -1.0)
        assert maintain() == dict.fromkeys(names, "192.0.2.2")
        asked = len(found.requests)
        maintain()
        assert [path for _, path in found.requests[asked:] if "networkpolicies" in path] == []
