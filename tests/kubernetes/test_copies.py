"""Where the storage takes no snapshots: forks and replicas are copies of the server, and the past is in the archive."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg
import pytest

from harness.instance import connect
from harness.kubernetes.contents import kubectl
from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.client import Client
from ramet.errors import Error
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from tests.kubernetes.archived import COMMITTED
from tests.kubernetes.ramets import Ledger, close_segment, login, objects_of, rows, running_in_cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


@dataclass
class House:
    """A client of Ramet without snapshots, and a service with a ledger that goes on until the last test."""

    client: Client
    namespace: str
    parent: Service
    password: str
    ledger: Ledger

    def forked(self, strategy: ForkStrategy, target: str | None = None) -> tuple[Service, str]:
        """Fork the service; return the fork when it is READY, with its password."""
        asked = self.client.fork_service(self.parent.service_id, strategy, target_time=target)
        assert asked.initial_password is not None
        return self.client.wait_ready(asked.service_id), asked.initial_password

    def remove(self, service: Service) -> None:
        """Delete a service, of which nothing may be left."""
        self.client.delete_service(service.service_id)
        self.client.wait_deleted(service.service_id)
        assert objects_of(service.service_id, self.namespace) == []


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with ExitStack() as stack:
        ramet, namespace = stack.enter_context(running_in_cluster(archive=True, RAMET_KUBERNETES_FORKS="copy"))
        client = stack.enter_context(ramet.client())
        asked = client.create_service("shop", environment=Environment.PROD)
        assert asked.initial_password is not None
        parent = client.wait_ready(asked.service_id)
        ledger = stack.enter_context(Ledger(parent, asked.initial_password))
        yield House(client, namespace, parent, asked.initial_password, ledger)


def test_a_fork_under_load_is_a_whole_copy(house: House) -> None:
    client, parent_id = house.client, house.parent.service_id
    plan = client.plan_fork(parent_id, ForkStrategy.NOW)
    assert plan.copied_bytes is not None
    assert plan.copied_bytes > 1_000_000
    house.ledger.await_rows(100)
    promised = house.ledger.before(datetime.now(UTC))
    fork, password = house.forked(ForkStrategy.NOW)
    house.ledger.await_rows(10)
    found = rows(fork, password)
    assert found == list(range(1, len(found) + 1))
    assert promised <= found[-1] < max(house.ledger.acknowledged)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        login(fork, house.password)
    with login(fork, password) as connection:
        connection.execute("INSERT INTO ledger VALUES (-1)")
    assert -1 not in rows(house.parent, house.password)
    assert "pg_basebackup" in client.fork_report(fork.service_id).checks[0]
    assert kubectl("get", "volumesnapshots", f"--namespace={house.namespace}", "--output=name") == ""
    house.remove(fork)


def test_a_past_time_comes_from_the_archive(house: House) -> None:
    def await_archived(time: datetime) -> None:
        def is_archived() -> bool:
            close_segment(house.parent.service_id, house.namespace)
            until = house.client.get_archive(house.parent.service_id).archived_until
            return until is not None and until > time

        eventually(is_archived, "the archive", 2.0, seconds=300)

    await_archived(datetime.now(UTC))  # after the first base backup
    house.ledger.await_rows(30)
    with login(house.parent, house.password) as connection:
        committed = dict(connection.execute(COMMITTED).fetchall())
    target = committed[max(committed) - 10]
    await_archived(target)
    fork, password = house.forked(ForkStrategy.PITR, target.isoformat())
    assert rows(fork, password) == [n for n, at in committed.items() if at <= target]
    house.remove(fork)


def test_a_replica_is_a_copy_and_follows(house: House) -> None:
    client, parent_id = house.client, house.parent.service_id
    made = client.create_replica_set(parent_id, "reports", nodes=1, cpu_millis="500", memory_gbs="1")

    def serves() -> bool:
        (seen,) = client.list_replica_sets(parent_id)
        return seen.status == "active"

    eventually(serves, "the replica", 0.2, seconds=180)
    (seen,) = client.list_replica_sets(parent_id)
    assert seen.endpoint is not None
    last, query = max(house.ledger.acknowledged), "SELECT max(n) FROM ledger"
    with connect(seen.endpoint.port, house.password, host=seen.endpoint.host, sslmode="require") as connection:
        eventually(lambda: connection.execute(query).fetchall()[0][0] >= last, "the rows")
    client.delete_replica_set(parent_id, made.id)
    eventually(lambda: client.list_replica_sets(parent_id) == [], seconds=180)


def test_what_needs_a_snapshot_is_refused_with_a_remedy(house: House) -> None:
    client, parent_id = house.client, house.parent.service_id
    for refused in (
        lambda: client.fork_service(parent_id, ForkStrategy.LAST_SNAPSHOT),
        lambda: client.take_snapshot(parent_id),
    ):
        with pytest.raises(Error, match="takes no snapshots"):
            refused()
