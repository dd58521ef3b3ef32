"""Poolers and replicas outlive the control plane, are found again, put right when they fall, and leave nothing."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from harness.instance import Instance, connect
from harness.waiting import eventually
from ramet.backends.local.process.daemon import Daemon
from ramet.backends.local.process.identity import find_server
from tests.crash.conftest import clear

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@dataclass(frozen=True)
class Shop:
    """A READY service with a pooler, and a set of two nodes with another."""

    instance: Instance
    id: str
    port: int
    password: str
    set_id: str

    def shown(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.instance.call("GET", f"/services/{self.id}").json()
        return answer

    def shown_set(self) -> dict[str, Any]:
        found: dict[str, Any] = self.shown()["read_replica_sets"][0]
        return found

    def ports(self) -> list[int]:
        """Return every address that leads to the rows: endpoint, pooler, set, and the set's pooler."""
        service, replica_set = self.shown(), self.shown_set()
        ways = [service["endpoint"], service["connection_pooler"]["endpoint"]]
        ways += [replica_set["endpoint"], replica_set["connection_pooler"]["endpoint"]]
        return [way["port"] for way in ways]

    def all_serve(self) -> bool:
        return self.shown_set()["status"] == "active" and all(serves(port, self.password) for port in self.ports())

    def node_ids(self) -> list[str]:
        (row,) = self.instance.rows("SELECT nodes FROM replica_set WHERE id = ?", self.set_id)
        return [node_id for node_id, _ in json.loads(row[0])]

    def server_pid(self, service_id: str) -> int:
        pid = find_server(self.instance.backend.instances.paths(service_id))
        assert pid is not None
        return pid

    def daemon_pid(self, service_id: str, kind: str) -> int:
        pid = Daemon(self.instance.backend.instances.paths(service_id).root / kind).running()
        assert pid is not None
        return pid

    def pids(self) -> set[int]:
        daemons = [(self.id, "pooler"), (self.set_id, "pooler"), (self.set_id, "balancer")]
        return {self.server_pid(one) for one in (self.id, *self.node_ids())} | {
            self.daemon_pid(service_id, kind) for service_id, kind in daemons
        }


def serves(port: int, password: str) -> bool:
    try:
        with connect(port, password) as connection:
            return connection.execute("SELECT n FROM ledger").fetchall() == [(1,)]
    except psycopg.Error:
        return False


@pytest.fixture(scope="module")
def made_shop(shared_instance: Instance) -> Iterator[Shop]:
    yield make_shop(shared_instance)
    clear(shared_instance)


@pytest.fixture
def shop(made_shop: Shop) -> Shop:
    """The shop of this module, whole again after the test before."""
    if made_shop.instance.process is None:
        made_shop.instance.up()
    eventually(made_shop.all_serve, lambda: str(made_shop.shown()))
    return made_shop


def make_shop(instance: Instance) -> Shop:
    answer = instance.call("POST", "/services", {"name": "shop"}).json()
    service_id, port, password = answer["service_id"], answer["endpoint"]["port"], answer["initial_password"]
    eventually(
        lambda: instance.call("GET", f"/services/{service_id}").json()["status"] == "READY",
        "it came to hold",
    )
    with connect(port, password) as connection:
        connection.execute("CREATE TABLE ledger AS SELECT 1::bigint AS n")
    body = {"name": "reads", "nodes": 2, "cpu_millis": 500, "memory_gbs": 1}
    made = instance.call("POST", f"/services/{service_id}/replicaSets", body).json()
    shop = Shop(instance, service_id, port, password, made["id"])
    eventually(lambda: shop.shown_set()["status"] == "active", "it came to hold")
    assert instance.call("POST", f"/services/{service_id}/enablePooler").status_code == 200
    assert instance.call("POST", f"/services/{service_id}/replicaSets/{made['id']}/enablePooler").status_code == 200
    eventually(shop.all_serve, "it came to hold")
    return shop


def test_poolers_and_replicas_outlive_a_killed_control_plane_and_are_found_again(shop: Shop) -> None:
    before, ports = shop.pids(), shop.ports()
    shop.instance.kill()
    assert all(serves(port, shop.password) for port in ports)
    shop.instance.up()
    eventually(shop.all_serve, "it came to hold")
    assert shop.pids() == before


@pytest.mark.parametrize("part", ["pooler", "first node", "second node", "balancer", "the set's pooler"])
def test_a_part_that_is_killed_serves_again(shop: Shop, part: str) -> None:
    victim = {
        "pooler": lambda: shop.daemon_pid(shop.id, "pooler"),
        "first node": lambda: shop.server_pid(shop.node_ids()[0]),
        "second node": lambda: shop.server_pid(shop.node_ids()[1]),
        "balancer": lambda: shop.daemon_pid(shop.set_id, "balancer"),
        "the set's pooler": lambda: shop.daemon_pid(shop.set_id, "pooler"),
    }[part]()
    before = shop.pids() - {victim}
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: _all_run_but(shop, victim) and shop.all_serve(), lambda: str(shop.shown()))
    assert before <= shop.pids()


def _all_run_but(shop: Shop, victim: int) -> bool:
    try:
        pids = shop.pids()
    except AssertionError:
        return False
    return len(pids) == 6 and victim not in pids


def test_poolers_and_replicas_are_stopped_and_started_with_the_host(shop: Shop) -> None:
    shop.instance.down()
    shop.instance.up()
    eventually(shop.all_serve, lambda: str(shop.shown()))


def test_killing_the_control_plane_while_a_set_is_made_leaves_a_set_or_nothing(shop: Shop) -> None:
    instance = shop.instance
    path = f"/services/{shop.id}/replicaSets"
    made = instance.call("POST", path, {"name": "second", "nodes": 1, "cpu_millis": 500, "memory_gbs": 1}).json()
    eventually(
        lambda: bool(
            instance.steps("subject = ? AND procedure = 'create_replicas' AND step <> 'replicate'", made["id"])
        ),
        "a step after the first",
    )
    instance.kill()
    instance.up()
    eventually(
        lambda: instance.call("GET", f"/services/{made['id']}").json().get("status") == "READY",
        "it came to hold",
    )
    assert serves(made["endpoint"]["port"], shop.password)
    assert instance.call("DELETE", f"{path}/{made['id']}").status_code == 202
    eventually(lambda: instance.call("GET", f"/services/{made['id']}").status_code == 404, "it came to hold")
    instance.await_idle()
    assert instance.leftovers() == []
