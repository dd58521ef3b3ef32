"""Poolers and read replica sets over real HTTP and PostgreSQL: docs/compatibility.md where they have a part in it."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from harness.waiting import eventually
from tests.conformance.server import Ramet
from tests.conformance.shapes import Error, Logs, Message, Operations, ReplicaSet, Series, Service, decode

READ_ONLY = "-c tsdb_admin.read_only_connection=true"
SMALL = {"cpu_millis": 500, "memory_gbs": 1}


@pytest.fixture(scope="module")
def service(ramet: Ramet) -> Iterator[Service]:
    made = ramet.ready(name="followed")
    with ramet.connect(made) as connection:
        connection.execute("CREATE TABLE ledger (n int PRIMARY KEY)")
    yield made
    ramet.delete(made)


@pytest.fixture
def reports(ramet: Ramet, service: Service) -> Iterator[ReplicaSet]:
    """An active set of one node."""
    made = create(ramet, service, nodes=1)
    yield made
    delete(ramet, service, made)


def sets_path(ramet: Ramet, service: Service, *parts: str) -> str:
    return ramet.path(service.service_id, "replicaSets", *parts)


def create(ramet: Ramet, service: Service, nodes: int) -> ReplicaSet:
    body = {"name": "reports", "nodes": nodes, **SMALL}
    made: ReplicaSet = ramet.call("POST", sets_path(ramet, service), 202, ReplicaSet, json=body)
    assert made.status == "creating"
    eventually(lambda: look(ramet, service, made).status == "active")
    return look(ramet, service, made)


def look(ramet: Ramet, service: Service, made: ReplicaSet) -> ReplicaSet:
    found: list[ReplicaSet] = ramet.call("GET", sets_path(ramet, service), 200, list[ReplicaSet])
    return next(each for each in found if each.id == made.id)


def delete(ramet: Ramet, service: Service, made: ReplicaSet) -> None:
    ramet.call("DELETE", sets_path(ramet, service, made.id), 202)
    eventually(lambda: ramet.http.get(ramet.path(made.id)).status_code == 404)


def connect(ramet: Ramet, service: Service, port: int, **changes: str) -> psycopg.Connection[tuple[object, ...]]:
    return ramet.connect(service, port=str(port), **changes)


def numbers(ramet: Ramet, service: Service, port: int) -> list[object]:
    with connect(ramet, service, port) as connection:
        return [row[0] for row in connection.execute("SELECT n FROM ledger ORDER BY n").fetchall()]


def insert(ramet: Ramet, service: Service, number: int) -> None:
    with ramet.connect(service) as connection:
        connection.execute("INSERT INTO ledger VALUES (%s) ON CONFLICT DO NOTHING", (number,))


def test_rule_22_a_replica_follows_and_cannot_be_written(ramet: Ramet, service: Service, reports: ReplicaSet) -> None:
    insert(ramet, service, 1)
    eventually(lambda: 1 in numbers(ramet, service, reports.endpoint.port))
    with (
        connect(ramet, service, reports.endpoint.port) as connection,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        connection.execute("INSERT INTO ledger VALUES (2)")


def test_rule_14_a_sets_id_names_a_standby(ramet: Ramet, service: Service, reports: ReplicaSet) -> None:
    found = ramet.call("GET", ramet.path(reports.id), 200, Service)
    assert (found.status, found.endpoint) == ("READY", reports.endpoint)
    assert found.forked_from is not None
    assert (found.forked_from.service_id, found.forked_from.is_standby) == (service.service_id, True)
    assert [each.id for each in ramet.get(service).read_replica_sets or []] == [reports.id]
    assert reports.id not in [each.service_id for each in ramet.services()]


def test_rule_14_logs_metrics_and_operations_of_a_set_are_read_by_its_id(
    ramet: Ramet, service: Service, reports: ReplicaSet
) -> None:
    with connect(ramet, service, reports.endpoint.port) as connection:
        connection.execute("DO $$ BEGIN RAISE WARNING 'said on the replica'; END $$")
    query = {"search": "said on the replica", "node": "0"}
    eventually(lambda: ramet.call("GET", ramet.path(reports.id, "logs"), 200, Logs, params=query).logs != [])
    assert ramet.call("GET", ramet.path(service.service_id, "logs"), 200, Logs, params=query).logs == []
    names = ramet.call("GET", ramet.path(reports.id, "metrics", "available-series"), 200, list[str])
    now = datetime.now(UTC)
    body = {"name": "ramet_replay_lag_seconds", "from": (now - timedelta(hours=1)).isoformat(), "to": now.isoformat()}
    assert body["name"] in names
    ramet.call("POST", ramet.path(reports.id, "metrics", "series"), 200, list[Series], json=body)
    (made,) = ramet.call("GET", ramet.path(reports.id, "operations"), 200, Operations).operations
    assert (made.operation, made.status, made.service_id) == ("create_replicas", "SUCCEEDED", service.service_id)


def test_rules_4_5_7_8_and_11_a_set_is_polled_as_a_service_from_its_creation_to_its_deletion(
    ramet: Ramet, service: Service
) -> None:
    body = {"name": "polled", "nodes": 1, **SMALL}
    made = ramet.call("POST", sets_path(ramet, service), 202, ReplicaSet, json=body)
    seen: list[str] = []

    def ready() -> bool:
        seen.append(ramet.call("GET", ramet.path(made.id), 200, Service).status)
        return seen[-1] == "READY"

    eventually(ready)
    insert(ramet, service, 7)
    eventually(lambda: 7 in numbers(ramet, service, made.endpoint.port))
    assert seen[0] != "READY"
    assert set(seen) <= {"QUEUED", "CONFIGURING", "READY"}
    ramet.call("DELETE", sets_path(ramet, service, made.id), 202)
    after: set[str] = set()
    while (answer := ramet.http.get(ramet.path(made.id))).status_code == 200:
        after.add(decode(answer.content, Service).status)
    assert answer.status_code == 404
    assert decode(answer.content, Error).message == "no service with that id exists"
    assert after <= {"DELETING"}


def test_rules_21_and_23_poolers_take_tls_and_the_right_password_only(
    ramet: Ramet, service: Service, reports: ReplicaSet
) -> None:
    ramet.post(service, "enablePooler", status=200, shape=Message)
    ramet.call("POST", sets_path(ramet, service, reports.id, "enablePooler"), 200, Message)
    pooled = [ramet.get(service).connection_pooler, look(ramet, service, reports).connection_pooler]
    for pooler in pooled:
        assert pooler is not None
        port = pooler.endpoint.port
        with connect(ramet, service, port) as connection:
            assert connection.pgconn.ssl_in_use
        with pytest.raises(psycopg.OperationalError, match=r"SSL required|TLS"):
            connect(ramet, service, port, sslmode="disable")
        with pytest.raises(
            psycopg.OperationalError, match=r"password authentication failed|SASL authentication failed"
        ):
            connect(ramet, service, port, password="wrong")
    ramet.call("POST", sets_path(ramet, service, reports.id, "disablePooler"), 200, Message)
    ramet.post(service, "disablePooler", status=200, shape=Message)
    assert (ramet.get(service).connection_pooler, look(ramet, service, reports).connection_pooler) == (None, None)


def test_rule_21_endpoints_of_sets_refuse_plain_text(ramet: Ramet, service: Service, reports: ReplicaSet) -> None:
    with pytest.raises(psycopg.OperationalError, match="no encryption"):
        connect(ramet, service, reports.endpoint.port, sslmode="disable")


def test_rules_1_and_5_a_set_pauses_resumes_and_resizes(ramet: Ramet, service: Service, reports: ReplicaSet) -> None:
    ramet.post(service, "stop")
    ramet.wait(service, "PAUSED")
    assert look(ramet, service, reports).status == "error"
    ramet.post(service, "start")
    ramet.wait(service, "READY")
    eventually(lambda: look(ramet, service, reports).status == "active")
    body = {"cpu_millis": "1000", "memory_gbs": "1"}
    ramet.call("POST", sets_path(ramet, service, reports.id, "resize"), 202, Message, json=body)
    assert look(ramet, service, reports).status in ("resizing", "active")
    eventually(lambda: look(ramet, service, reports).status == "active")
    assert look(ramet, service, reports).cpu_millis == 1000
    insert(ramet, service, 3)
    eventually(lambda: 3 in numbers(ramet, service, reports.endpoint.port))


def test_a_service_can_grow_while_its_replica_follows(ramet: Ramet, service: Service, reports: ReplicaSet) -> None:
    ramet.post(service, "resize", {"cpu_millis": "2000", "memory_gbs": "8"})
    ramet.wait(service, "READY")
    insert(ramet, service, 4)
    eventually(lambda: 4 in numbers(ramet, service, reports.endpoint.port))
    ramet.post(service, "resize", {"cpu_millis": "500", "memory_gbs": "2"})
    ramet.wait(service, "READY")


def test_several_nodes_share_one_endpoint(ramet: Ramet, service: Service) -> None:
    made = create(ramet, service, nodes=2)
    insert(ramet, service, 5)
    eventually(lambda: 5 in numbers(ramet, service, made.endpoint.port))
    clients = [connect(ramet, service, made.endpoint.port, options=READ_ONLY) for _ in range(4)]
    try:
        assert len({client.execute("SHOW cluster_name").fetchone() for client in clients}) == 2
    finally:
        for client in clients:
            client.close()
    delete(ramet, service, made)


def test_rule_1_a_service_and_a_set_have_poolers(ramet: Ramet, service: Service, reports: ReplicaSet) -> None:
    ramet.post(service, "enablePooler", status=200, shape=Message)
    pooler = ramet.get(service).connection_pooler
    assert pooler is not None
    insert(ramet, service, 6)
    assert 6 in numbers(ramet, service, pooler.endpoint.port)
    with connect(ramet, service, pooler.endpoint.port, dbname="tsdb_transaction") as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("tsdb",)
    ramet.call("POST", sets_path(ramet, service, reports.id, "enablePooler"), 200, Message)
    pooled = look(ramet, service, reports).connection_pooler
    assert pooled is not None
    eventually(lambda: 6 in numbers(ramet, service, pooled.endpoint.port))
    ramet.call("POST", sets_path(ramet, service, reports.id, "disablePooler"), 200, Message)
    ramet.post(service, "disablePooler", status=200, shape=Message)
    assert ramet.get(service).connection_pooler is None
    with pytest.raises(psycopg.OperationalError, match="Connection refused"):
        connect(ramet, service, pooler.endpoint.port)


def test_rule_22_a_read_only_session_through_a_pooler_reads_only_or_is_refused(
    ramet: Ramet, service: Service, reports: ReplicaSet
) -> None:
    ramet.post(service, "enablePooler", status=200, shape=Message)
    ramet.call("POST", sets_path(ramet, service, reports.id, "enablePooler"), 200, Message)
    of_service, of_set = ramet.get(service).connection_pooler, look(ramet, service, reports).connection_pooler
    assert of_service is not None
    assert of_set is not None
    with pytest.raises(psycopg.OperationalError, match="options"):
        connect(ramet, service, of_service.endpoint.port, options=READ_ONLY)
    for database in ("tsdb", "tsdb_transaction"):
        with (
            connect(ramet, service, of_set.endpoint.port, options=READ_ONLY, dbname=database) as connection,
            pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
        ):
            connection.execute("DELETE FROM ledger")
    ramet.call("POST", sets_path(ramet, service, reports.id, "disablePooler"), 200, Message)
    ramet.post(service, "disablePooler", status=200, shape=Message)


def test_a_changed_password_opens_pooler_and_replica(ramet: Ramet, service: Service, reports: ReplicaSet) -> None:
    ramet.post(service, "enablePooler", status=200, shape=Message)
    pooler = ramet.get(service).connection_pooler
    assert pooler is not None
    password = f"new {time.time_ns()}"
    ramet.post(service, "updatePassword", {"password": password}, status=204, shape=None)
    ramet.passwords[f"{service.endpoint.host}:{service.endpoint.port}"] = password
    insert(ramet, service, 8)
    assert 8 in numbers(ramet, service, pooler.endpoint.port)
    eventually(lambda: opens(ramet, service, reports.endpoint.port))
    ramet.post(service, "disablePooler", status=200, shape=Message)


def opens(ramet: Ramet, service: Service, port: int) -> bool:
    try:
        connect(ramet, service, port).close()
    except psycopg.OperationalError:
        return False
    return True


def test_rule_3_too_many_nodes_and_unknown_sets_are_refused(ramet: Ramet, service: Service) -> None:
    error = ramet.call("POST", sets_path(ramet, service), 400, Error, json={"name": "x", "nodes": 9, **SMALL})
    assert "nodes" in error.message
    body = {"cpu_millis": "500", "memory_gbs": "2"}
    ramet.call("POST", sets_path(ramet, service, "a" * 10, "resize"), 404, Error, json=body)
