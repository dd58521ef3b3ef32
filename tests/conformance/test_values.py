"""Rules 10 to 20 of docs/compatibility.md: values in requests and answers."""

import base64
import re
from datetime import UTC, datetime, timedelta, timezone

import httpx
import pytest

from harness.waiting import eventually
from tests.conformance.server import Ramet
from tests.conformance.shapes import Error, Logs, Operations, Series, Service


@pytest.mark.parametrize(
    ("sizes", "spec"),
    [
        ({"cpu_millis": "500", "memory_gbs": "2"}, (500, 2)),
        ({"cpu_millis": 1000, "memory_gbs": 4}, (1000, 4)),
        ({"cpu_millis": "shared", "memory_gbs": "shared"}, (None, None)),
    ],
)
def test_rules_10_and_12_sizes_are_strings_or_integers_in_and_integers_or_null_out(
    ramet: Ramet, shop: Service, sizes: dict[str, object], spec: tuple[int | None, int | None]
) -> None:
    fork = ramet.fork(shop, name="sized", **sizes)
    assert (fork.resources[0].spec.cpu_millis, fork.resources[0].spec.memory_gbs) == spec
    ramet.delete(fork)


def test_rule_11_ids_and_times_have_the_known_form(ramet: Ramet, shop: Service) -> None:
    created = datetime.fromisoformat(shop.created)
    assert created.tzinfo is not None
    assert abs(datetime.now(UTC) - created) < timedelta(hours=1)
    assert re.fullmatch("[a-z0-9]{10}", shop.service_id)


def test_rule_12_addons_decide_the_service_type(ramet: Ramet) -> None:
    plain = ramet.create(name="plain", addons=[], replica_count=0)
    assert plain.service_type == "POSTGRES"
    ramet.delete(plain)
    answer = ramet.http.post(ramet.path(), json={"name": "vectors", "addons": ["ai"]})
    if answer.status_code == 400:
        assert "install" in answer.text.lower()
    else:
        assert answer.json()["service_type"] == "VECTOR"
        ramet.delete(ramet.call("GET", ramet.path(answer.json()["service_id"]), 200, Service))


def test_rule_13_target_time_keeps_its_offset_and_belongs_to_pitr_alone(ramet: Ramet, shop: Service) -> None:
    with ramet.connect(shop) as connection:
        (at,) = connection.execute("SELECT clock_timestamp()").fetchone() or (None,)
        connection.execute("INSERT INTO orders VALUES (-1, 'too late')")
    assert at is not None
    target = at.astimezone(timezone(timedelta(hours=2))).isoformat(timespec="microseconds")
    fork = ramet.fork(shop, fork_strategy="PITR", target_time=target, name="past")
    ready = ramet.wait(fork, "READY")
    assert ramet.rows(ready, "SELECT count(*) FROM orders WHERE id = -1") == [(0,)]
    raw = ramet.http.get(ramet.path(fork.service_id)).json()
    assert raw["metadata"]["target_time"] == target
    ramet.rows(shop, "DELETE FROM orders WHERE id = -1 RETURNING id")
    ramet.delete(ready)
    for body in (
        {"fork_strategy": "PITR"},
        {"fork_strategy": "PITR", "target_time": at.replace(tzinfo=None).isoformat()},
        {"fork_strategy": "NOW", "target_time": target},
        {"fork_strategy": "LAST_SNAPSHOT", "target_time": target},
        {"fork_strategy": "PITR", "target_time": "2001-01-01T00:00:00Z"},
        {"fork_strategy": "PITR", "target_time": "2101-01-01T00:00:00Z"},
    ):
        ramet.post(shop, "forkService", body, 400, Error)


def test_rule_14_a_fork_is_no_standby(ramet: Ramet, shop: Service) -> None:
    fork = ramet.fork(shop, name="lineage")
    assert fork.forked_from is not None
    assert (fork.forked_from.service_id, fork.forked_from.is_standby) == (shop.service_id, False)
    assert shop.forked_from is None
    ramet.delete(fork)


@pytest.mark.parametrize("field", ["service_type", "volume_type", "colour"])
def test_rule_15_unknown_and_inherited_fields_are_named(ramet: Ramet, shop: Service, field: str) -> None:
    error = ramet.post(shop, "forkService", {"fork_strategy": "NOW", field: "x"}, 400, Error)
    assert field in error.message + error.details
    if field != "colour":
        assert "inherited from the parent" in error.message


def test_rule_15_unknown_query_parameters_are_ignored(ramet: Ramet, shop: Service) -> None:
    listed = ramet.call("GET", ramet.path() + "?limit=1&verbose", 200, list[Service])
    assert shop.service_id in {service.service_id for service in listed}


def test_rule_16_logs_are_newest_first_with_both_cursors(ramet: Ramet, shop: Service) -> None:
    with ramet.connect(shop) as connection:
        connection.execute("DO $$ BEGIN FOR n IN 1..600 LOOP RAISE WARNING 'conformance line %', n; END LOOP; END $$")
    until = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "000Z")
    query = {"until": until, "search": "conformance line", "severities": ["WARNING"]}
    path = ramet.path(shop.service_id, "logs")
    seen: list[str] = []

    def whole() -> bool:
        first = ramet.call("GET", path, 200, Logs, params=query)
        if len(first.entries) < 500:
            return False
        assert first.logs == [entry.message for entry in first.entries]
        assert first.last_cursor == first.lastCursor
        second = ramet.call("GET", path, 200, Logs, params={**query, "cursor": first.last_cursor})
        assert not isinstance(second.last_cursor, str)
        assert not isinstance(second.lastCursor, str)
        seen[:] = [*first.logs, *second.logs]
        return True

    eventually(whole)
    assert seen == [f"conformance line {n}" for n in range(600, 0, -1)]


def test_rule_17_answers_have_deprecated_fields_beside_their_replacements(ramet: Ramet, shop: Service) -> None:
    info = ramet.call("GET", "/auth/info", 200, dict)
    assert info["api_key"] == info["apiKey"]
    raw = ramet.http.get(ramet.path(shop.service_id)).json()
    assert not {"vpc_endpoint", "vpcEndpoint"} & raw.keys()  # rule 24


def test_rule_18_auth_info_and_analytics_answer_as_commands_expect(ramet: Ramet) -> None:
    info = ramet.call("GET", "/auth/info", 200, dict)
    assert info["type"] == "apiKey"
    assert info["api_key"]["project"]["id"] == ramet.project_id
    assert {"public_key", "name", "created", "project", "issuing_user"} <= info["api_key"].keys()
    for path, body in (("identify", {"properties": {"x": 1}}), ("track", {"event": "e", "properties": {}})):
        assert ramet.call("POST", f"/analytics/{path}", 200, dict, json=body) == {"status": "success"}
    ramet.call("POST", "/auth/logout", 204)


def test_rule_19_a_key_opens_one_project_by_basic_and_by_bearer(ramet: Ramet) -> None:
    (project,) = ramet.call("GET", "/projects", 200, list)
    assert project["id"] == ramet.project_id
    basic = ramet.http.get("/projects").request.headers["authorization"].removeprefix("Basic ")
    bearer = base64.b64decode(basic).decode()
    for token in (bearer, basic):
        answer = httpx.get(f"{ramet.base_url}/projects", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
        assert answer.json() == [project]


def test_rule_20_ready_and_paused_parents_can_be_forked_and_environment_is_in_metadata(
    ramet: Ramet, shop: Service
) -> None:
    parent = ramet.wait(ramet.fork(shop, name="parent", environment_tag="PROD"), "READY")
    assert parent.metadata.environment == "PROD"
    ramet.post(parent, "stop")
    ramet.wait(parent, "PAUSED")
    fork = ramet.wait(ramet.fork(parent), "READY")
    assert (fork.name, fork.metadata.environment) == ("parent-fork", "DEV")
    assert ramet.rows(fork, "SELECT count(*) FROM orders") == [(1000,)]
    ramet.delete(fork)
    ramet.delete(parent)


def test_metrics_are_listed_and_read_in_buckets(ramet: Ramet, shop: Service) -> None:
    names = ramet.call("GET", ramet.path(shop.service_id, "metrics", "available-series"), 200, list[str])
    now = datetime.now(UTC)
    body = {"from": (now - timedelta(minutes=5)).isoformat(), "to": now.isoformat(), "bucket_seconds": 60}
    for name in names:
        ramet.call(
            "POST", ramet.path(shop.service_id, "metrics", "series"), 200, list[Series], json={**body, "name": name}
        )
    refused = {**body, "name": names[0], "bucket_seconds": 59}
    ramet.call("POST", ramet.path(shop.service_id, "metrics", "series"), 400, Error, json=refused)


def test_operations_tell_how_long_each_step_took(ramet: Ramet, shop: Service) -> None:
    found = ramet.call("GET", ramet.path(shop.service_id, "operations"), 200, Operations).operations
    (creation,) = [operation for operation in found if operation.operation == "create"]
    assert creation.status == "SUCCEEDED"
    assert creation.steps
    assert all(step.seconds >= 0 for step in creation.steps)
