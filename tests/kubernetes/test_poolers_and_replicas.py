"""Poolers and read replica sets in the cluster, through `ramet up`."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import psycopg
import pytest

from harness.instance import connect
from harness.kubernetes.contents import kubectl
from harness.waiting import eventually
from ramet.api.schemas.replica_sets import ReadReplicaSet
from ramet.api.schemas.services import Service
from ramet.api.schemas.shared import Endpoint
from ramet.client import Client
from tests.kubernetes.ramets import login, running_in_cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


@dataclass
class House:
    """A client of Ramet, and a service that all tests here share."""

    client: Client
    namespace: str
    service: Service
    password: str


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with ExitStack() as stack:
        ramet, namespace = stack.enter_context(running_in_cluster())
        client = stack.enter_context(ramet.client())
        asked = client.create_service("shop")
        assert asked.initial_password is not None
        service = client.wait_ready(asked.service_id)
        with login(service, asked.initial_password) as connection:
            connection.execute("CREATE TABLE ledger AS SELECT generate_series(1, 100) AS n")
        yield House(client, namespace, service, asked.initial_password)


def through(
    endpoint: Endpoint, password: str, database: str = "tsdb", role: str = "tsdbadmin"
) -> "psycopg.Connection[tuple[object, ...]]":
    return connect(endpoint.port, password, host=endpoint.host, sslmode="require", dbname=database, user=role)


def pooler_of(house: House) -> Endpoint:
    house.client.enable_pooler(house.service.service_id)
    found = house.client.get_service(house.service.service_id).connection_pooler
    assert found is not None
    eventually(lambda: answers(found.endpoint, house.password), "the pooler")
    return found.endpoint


def active_set(house: House, set_id: str) -> ReadReplicaSet:
    """Wait until a set is active; return it."""

    def looked() -> ReadReplicaSet:
        return next(one for one in house.client.list_replica_sets(house.service.service_id) if one.id == set_id)

    eventually(lambda: looked().status == "active", lambda: f"an active set: {looked()}", seconds=300)
    return looked()


def answers(endpoint: Endpoint, password: str) -> bool:
    try:
        through(endpoint, password).close()
    except psycopg.OperationalError:
        return False
    return True


def has_rows(endpoint: Endpoint | None, password: str, count: int) -> bool:
    assert endpoint is not None
    try:
        with through(endpoint, password) as connection:
            return connection.execute("SELECT count(*) FROM ledger").fetchone() == (count,)
    except psycopg.OperationalError:
        return False


def test_a_pooler_has_a_session_pool_and_a_transaction_pool_over_tls(house: House) -> None:
    at, service_id = pooler_of(house), house.service.service_id
    with through(at, house.password) as session, through(at, house.password, "tsdb_transaction") as transaction:
        session.execute("SET work_mem = '5MB'")
        session.commit()
        assert session.execute("SHOW work_mem").fetchone() == ("5MB",)
        transaction.autocommit = True
        assert transaction.execute("SELECT max(n) >= 100, current_database() FROM ledger").fetchone() == (True, "tsdb")
        for _ in range(10):
            assert transaction.execute("SELECT n FROM ledger WHERE n = %s", (7,), prepare=True).fetchone() == (7,)
    for role, password in (("tsdbadmin", "another"), ("ramet", ""), ("pg_ramet_pooler", ""), ("postgres", "")):
        with pytest.raises(psycopg.OperationalError, match=r"authentication failed|no such user|no password supplied"):
            through(at, password, role=role)
    with pytest.raises(psycopg.OperationalError, match=r"SSL required|TLS"):
        connect(at.port, house.password, host=at.host, sslmode="disable")
    house.client.stop_service(service_id)
    house.client.wait_paused(service_id)
    assert kubectl("get", "pods", f"--namespace={house.namespace}", "--output=name") == ""
    house.client.start_service(service_id)
    house.client.wait_ready(service_id)
    eventually(lambda: answers(at, house.password), "the pooler again")
    house.client.disable_pooler(service_id)
    assert house.client.get_service(service_id).connection_pooler is None
    eventually(lambda: "pooler" not in kubectl("get", "all,configmaps", f"--namespace={house.namespace}"))


def test_a_replica_set_follows_its_service_until_it_is_deleted(house: House) -> None:
    client, service_id = house.client, house.service.service_id
    made = client.create_replica_set(service_id, "reports", nodes=2, cpu_millis="500", memory_gbs="1")
    found = active_set(house, made.id)
    assert found.endpoint is not None
    seen = set()
    with login(house.service, house.password) as writing:
        writing.execute("INSERT INTO ledger VALUES (101)")

    def sees_both() -> bool:
        if not answers(found.endpoint, house.password):  # the rules of the node change when the second one is there
            return False
        with through(found.endpoint, house.password) as reading:
            assert reading.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
            seen.add(reading.execute("SELECT inet_server_addr()").fetchone())
            eventually(lambda: reading.execute("SELECT count(*) FROM ledger").fetchone() == (101,), "the row")
        return len(seen) == 2

    eventually(sees_both, "connections to both nodes")
    client.enable_replica_pooler(service_id, made.id)
    pooled = active_set(house, made.id).connection_pooler
    assert pooled is not None
    eventually(lambda: answers(pooled.endpoint, house.password), "the pooler of the set")
    with through(pooled.endpoint, house.password, "tsdb_transaction") as reading:
        assert reading.execute("SELECT count(*) FROM ledger").fetchone() == (101,)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            reading.execute("INSERT INTO ledger VALUES (102)")
    client.resize_replica_set(service_id, made.id, "600", "1")
    resized = active_set(house, made.id)
    assert resized.cpu_millis == 600
    eventually(lambda: answers(resized.endpoint, house.password), "the resized set")
    client.stop_service(service_id)
    client.wait_paused(service_id)
    client.start_service(service_id)
    client.wait_ready(service_id)
    started = active_set(house, made.id)
    with login(house.service, house.password) as writing:
        writing.execute("INSERT INTO ledger VALUES (102)")
    eventually(lambda: has_rows(started.endpoint, house.password, 102), "the rows of the started set")
    client.delete_replica_set(service_id, made.id)
    eventually(lambda: client.list_replica_sets(service_id) == [], seconds=180)
    left = kubectl("get", "all,pvc,configmaps,volumesnapshots", f"--namespace={house.namespace}", "--output=name")
    assert made.id not in left
