"""Services in the cluster, through `ramet up`: forks under load judged row by row, what they reach, each change."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg
import pytest

from harness.instance import Instance
from harness.kubernetes.layout import HOST_ADDRESS
from harness.kubernetes.objects import find
from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.client import Client
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.passwords import Secret
from tests.kubernetes.ramets import Ledger, login, objects_of, rows, running_in_cluster
from tests.kubernetes.reaching import listening_outside, reaches

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]
_CHOSEN = "A password of 24 letters"


@dataclass
class House:
    """Ramet, a client of it, and a service with a ledger, which all tests here share."""

    ramet: Instance
    client: Client
    namespace: str
    parent: Service
    password: str

    def fork(self, strategy: ForkStrategy, **fields: str) -> tuple[Service, str]:
        """Fork the service; return the fork when it is READY, with its password."""
        asked = self.client.fork_service(self.parent.service_id, strategy, **fields)  # type: ignore[arg-type]
        assert asked.initial_password is not None
        return self.client.wait_ready(asked.service_id), asked.initial_password


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with ExitStack() as stack:
        ramet, namespace = stack.enter_context(running_in_cluster(RAMET_KUBERNETES_FORK_EGRESS="deny"))
        client = stack.enter_context(ramet.client())
        asked = client.create_service("shop", environment=Environment.PROD)
        assert asked.initial_password is not None
        yield House(ramet, client, namespace, client.wait_ready(asked.service_id), asked.initial_password)


@pytest.mark.parametrize("strategy", [ForkStrategy.NOW, ForkStrategy.LAST_SNAPSHOT])
def test_a_fork_under_load_has_all_that_was_acknowledged_and_no_hole(house: House, strategy: ForkStrategy) -> None:
    with Ledger(house.parent, house.password) as ledger:
        ledger.await_rows(100)
        if strategy is ForkStrategy.LAST_SNAPSHOT:
            promised = ledger.before(datetime.now(UTC))
            taken = house.client.take_snapshot(house.parent.service_id)
            house.client.wait_snapshot(house.parent.service_id, taken.id)
        else:
            promised = ledger.before(datetime.now(UTC))
        fork, password = house.fork(strategy)
        ledger.await_rows(10)
        last = max(ledger.acknowledged)
    found = rows(fork, password)
    assert found == list(range(1, len(found) + 1))
    assert promised <= found[-1] < last
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        login(fork, house.password)
    with login(fork, password) as connection:
        connection.execute("INSERT INTO ledger VALUES (-1)")
    assert -1 not in rows(house.parent, house.password)
    house.client.delete_service(fork.service_id)
    house.client.wait_deleted(fork.service_id)
    assert objects_of(fork.service_id, house.namespace) == []


def test_a_fork_takes_every_change(house: House) -> None:
    client = house.client
    with Ledger(house.parent, house.password) as ledger:
        ledger.await_rows(10)
    fork, password = house.fork(ForkStrategy.NOW, name="changed")
    kept, service_id = rows(fork, password), fork.service_id
    client.stop_service(service_id)
    client.wait_paused(service_id)
    with pytest.raises(psycopg.OperationalError):
        login(fork, password)
    client.start_service(service_id)
    client.wait_ready(service_id)
    assert rows(fork, password) == kept
    client.resize_service(service_id, "500", "1")
    assert client.wait_ready(service_id).resources[0].spec.memory_gbs == 1
    assert rows(fork, password) == kept
    client.update_password(service_id, Secret(_CHOSEN))
    assert rows(fork, _CHOSEN) == kept
    client.rename_service(service_id, "renamed")
    client.set_environment(service_id, Environment.PROD)
    seen = client.get_service(service_id)
    assert (seen.name, seen.metadata.environment) == ("renamed", Environment.PROD)
    eventually(lambda: "ramet_storage_bytes" in client.list_series(service_id))
    assert client.read_logs(service_id).entries
    client.delete_service(service_id)
    client.wait_deleted(service_id)
    assert objects_of(service_id, house.namespace) == []


def test_a_fork_of_a_paused_service_has_its_last_state(house: House) -> None:
    with Ledger(house.parent, house.password) as ledger:
        ledger.await_rows(10)
    kept = rows(house.parent, house.password)
    house.client.stop_service(house.parent.service_id)
    house.client.wait_paused(house.parent.service_id)
    fork, password = house.fork(ForkStrategy.NOW)
    assert rows(fork, password) == kept
    house.client.start_service(house.parent.service_id)
    house.client.wait_ready(house.parent.service_id)
    house.client.delete_service(fork.service_id)
    house.client.wait_deleted(fork.service_id)


@pytest.mark.parametrize("environment", list(Environment))
def test_a_dev_fork_reaches_nothing_outside_and_a_prod_fork_does_once_it_is_secured(
    house: House, environment: Environment
) -> None:
    client, at = house.client, house.namespace
    forked = client.fork_service(house.parent.service_id, ForkStrategy.NOW, environment=environment)
    pod, policy = f"ramet-{forked.service_id}-1", f"ramet-{forked.service_id}-egress"
    eventually(lambda: find("pod", pod, at) is not None, f"the pod {pod}", 0.1)
    closed = find("networkpolicy", policy, at)
    ready = client.wait_ready(forked.service_id)
    assert closed or environment is Environment.PROD  # a policy that was there before its pod, unless it went
    with listening_outside() as port:
        assert reaches(at, f"ramet-{house.parent.service_id}-1", HOST_ADDRESS, port, "postgres")
        assert reaches(at, pod, HOST_ADDRESS, port, "postgres") is (environment is Environment.PROD)
    assert forked.initial_password is not None
    with login(ready, forked.initial_password) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    left = find("networkpolicy", policy, at)
    assert (None if left is None else len(left["spec"]["egress"])) == (3 if environment is Environment.DEV else None)
    client.delete_service(forked.service_id)
    client.wait_deleted(forked.service_id)
