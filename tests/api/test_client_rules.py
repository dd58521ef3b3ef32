"""What existing clients rely on, rule by rule, by the numbers of docs/compatibility.md."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ramet.backends.memory.restore import MemoryRestore
from ramet.endpoints import BASE_PATH
from ramet.errors import Failed, Invalid
from ramet.model.status import FAILED_SHOWN_FOR
from ramet.model.timestamps import rfc3339
from tests.api.world import JsonObject, World

FIELDS = {
    "service_id": str,
    "project_id": str,
    "name": str,
    "region_code": str,
    "service_type": str,
    "created": str,
    "paused": bool,
    "status": str,
    "resources": list,
    "metadata": dict,
    "endpoint": dict,
    "ha_replicas": dict,
    "read_replica_sets": list,
}


def test_rule_1_each_operation_answers_with_its_exact_status(world: World) -> None:
    created = world.post(world.services_path, {"name": "shop"})
    service = created.json()["service_id"]
    world.work()
    forked = world.post(world.path(service, "forkService"), {"fork_strategy": "NOW"})
    stopped = world.post(world.path(service, "stop"))
    world.work()
    started = world.post(world.path(service, "start"))
    world.work()
    assert [answer.status_code for answer in (created, forked, stopped, started)] == [202] * 4
    assert world.get(world.services_path).status_code == 200
    assert world.get(world.path(service)).status_code == 200
    deleted = world.delete(world.path(service))
    assert (deleted.status_code, deleted.content) == (202, b"")
    assert "json" not in deleted.headers["content-type"]


def test_rule_2_the_list_is_a_bare_array_in_order_of_creation(world: World) -> None:
    empty = world.get(world.services_path)
    assert empty.content == b"[]"
    assert "json" in empty.headers["content-type"]
    made = [world.create(name=f"s{number}")["service_id"] for number in range(5)]
    assert [service["service_id"] for service in world.listed()] == made


def test_rule_3_an_unknown_service_is_a_404_with_the_known_sentence(world: World) -> None:
    for service_id in ("a000000000", "short", "UPPERCASE1", "a%20b", "0" * 300):
        for answer in (
            world.get(world.path(service_id)),
            world.delete(world.path(service_id)),
            world.post(world.path(service_id, "start")),
            world.post(world.path(service_id, "stop")),
            world.post(world.path(service_id, "forkService"), {"fork_strategy": "NOW"}),
        ):
            assert answer.status_code == 404
            assert answer.json()["message"] == "no service with that id exists"


def test_rule_3_a_wrong_state_is_a_400_that_names_the_state(world: World) -> None:
    service = world.create()["service_id"]
    for verb, body in (("start", None), ("stop", None), ("forkService", {"fork_strategy": "NOW"})):
        answer = world.post(world.path(service, verb), body)
        assert answer.status_code == 400
        assert answer.json()["code"] == "INVALID_STATE"
        assert "QUEUED" in answer.json()["message"]


def test_rule_4_polling_answers_200_or_404_at_any_time(world: World) -> None:
    service = world.create()
    assert world.get(world.path(service["service_id"])).status_code == 200
    world.work()
    assert world.look(service)["status"] == "READY"
    world.delete(world.path(service["service_id"]))
    assert world.get(world.path(service["service_id"])).status_code in (200, 404)
    world.work()
    assert world.get(world.path(service["service_id"])).status_code == 404


def test_rule_5_an_accepted_operation_never_shows_its_target_first(world: World) -> None:
    parent = world.create()
    assert parent["status"] == "QUEUED"
    world.work()
    assert world.fork(parent)["status"] == "QUEUED"
    world.work()
    stopped = world.post(world.path(parent["service_id"], "stop")).json()
    assert (stopped["status"], stopped["paused"]) == ("PAUSING", False)
    world.work()
    paused = world.look(parent)
    assert (paused["status"], paused["paused"]) == ("PAUSED", True)
    assert world.post(world.path(parent["service_id"], "start")).json()["status"] == "RESUMING"
    world.work()
    assert world.look(parent)["status"] == "READY"


def test_rule_6_a_failed_fork_is_unstable_with_its_reason_and_then_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = world.ready()

    def refuse(*_: Any) -> None:
        raise Failed("DISK_FULL", "The disk is full")

    monkeypatch.setattr(MemoryRestore, "recover", refuse)
    fork = world.fork(parent)
    world.work()
    seen = world.look(fork)
    assert seen["status"] == "UNSTABLE"
    assert "The disk is full" in seen["metadata"]["status_reason"]
    world.advance(FAILED_SHOWN_FOR + timedelta(seconds=1))
    assert world.get(world.path(fork["service_id"])).status_code == 404
    assert [service["service_id"] for service in world.listed()] == [parent["service_id"]]


def test_rule_7_a_deleted_service_ends_in_404_and_leaves_the_list(world: World) -> None:
    service = world.ready()
    world.delete(world.path(service["service_id"]))
    world.work()
    assert world.get(world.path(service["service_id"])).status_code == 404
    assert world.delete(world.path(service["service_id"])).status_code == 404
    assert world.listed() == []


def test_rule_9_create_and_fork_carry_all_fields_and_the_password_and_nothing_else_does(world: World) -> None:
    parent = world.create()
    world.work()
    fork = world.fork(parent)
    for accepted in (parent, fork):
        _check_fields(accepted, {"initial_password", *({"forked_from"} if accepted is fork else ())})
        assert len(accepted["initial_password"]) >= 20
    assert parent["endpoint"] != fork["endpoint"]
    world.work()
    stopped = world.post(world.path(parent["service_id"], "stop")).json()
    for other in (*world.listed(), world.look(parent), world.look(fork), stopped):
        _check_fields(other, {"forked_from"} & other.keys())


def test_rule_9_answers_are_kept_by_no_cache(world: World) -> None:
    assert world.post(world.services_path, {"name": "shop"}).headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("sizes", "spec"),
    [
        ({"cpu_millis": "500", "memory_gbs": "2"}, (500, 2)),
        ({"cpu_millis": 500, "memory_gbs": 2}, (500, 2)),
        ({"cpu_millis": "shared", "memory_gbs": "shared"}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_rules_10_and_12_sizes_are_strings_or_integers_in_and_integers_or_null_out(
    world: World, sizes: JsonObject, spec: tuple[int | None, int | None]
) -> None:
    (resource,) = world.create(**sizes)["resources"]
    assert (resource["spec"]["cpu_millis"], resource["spec"]["memory_gbs"]) == spec
    assert all(isinstance(value, int | None) for value in spec)
    assert resource["spec"]["volume_type"] == "memory"
    assert isinstance(resource["id"], str)


def test_rule_11_times_have_zones_and_ids_ten_characters(world: World) -> None:
    service = world.create()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", service["created"])
    assert re.fullmatch(r"[a-z0-9]{10}", service["service_id"])


@pytest.mark.parametrize(
    ("fields", "service_type"),
    [
        ({}, "POSTGRES"),
        ({"addons": []}, "POSTGRES"),
        ({"addons": ["time-series"]}, "TIMESERIESDB"),
        ({"addons": ["ai"]}, "VECTOR"),
        ({"addons": ["ai", "time-series"]}, "TIMESERIESDB"),
        ({"service_type": "VECTOR"}, "VECTOR"),
        ({"service_type": "VECTOR", "addons": ["ai"], "replica_count": 0, "region_code": "local"}, "VECTOR"),
    ],
)
def test_rule_12_addons_decide_the_service_type(world: World, fields: JsonObject, service_type: str) -> None:
    assert world.create(**fields)["service_type"] == service_type


def test_rule_12_both_addons_are_refused_where_one_extension_is_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(service_type: str, pg_major: int) -> None:
        if service_type == "VECTOR":
            raise Invalid("EXTENSION_MISSING", "the extension vector is missing")

    monkeypatch.setattr(world.backend.host, "check_service_type", check)
    assert world.create(addons=["time-series"])["service_type"] == "TIMESERIESDB"
    body = {"name": "both", "addons": ["time-series", "ai"]}
    refused = world.post(world.services_path, body)
    assert (refused.status_code, refused.json()["code"]) == (400, "EXTENSION_MISSING")


def test_rule_13_target_time_keeps_the_offset_of_its_caller(world: World) -> None:
    parent = world.ready()
    target = rfc3339(datetime.now(UTC) + timedelta(hours=2)).replace("Z", "+02:00")
    fork = world.fork(parent, fork_strategy="PITR", target_time=target)
    assert fork["metadata"]["target_time"] == target


def test_rule_13_target_time_goes_with_pitr_and_only_with_pitr(world: World) -> None:
    parent = world.ready()
    now = datetime.now(UTC)
    refused = {
        "TARGET_TIME_REQUIRED": {"fork_strategy": "PITR"},
        "TARGET_TIME_NOT_ALLOWED": {"fork_strategy": "NOW", "target_time": rfc3339(now)},
        "INVALID_TARGET_TIME": {"fork_strategy": "PITR", "target_time": rfc3339(now).removesuffix("Z")},
        "TARGET_TIME_IN_FUTURE": {"fork_strategy": "PITR", "target_time": rfc3339(now + timedelta(hours=1))},
        "OUTSIDE_RESTORE_WINDOW": {"fork_strategy": "PITR", "target_time": "2001-01-01T00:00:00Z"},
    }
    for code, body in refused.items():
        answer = world.post(world.path(parent["service_id"], "forkService"), body)
        assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert len(world.listed()) == 1


def test_rule_14_a_fork_is_no_standby_and_names_its_parent(world: World) -> None:
    parent = world.ready()
    assert "forked_from" not in parent
    fork = world.fork(parent)
    assert fork["forked_from"] == {
        "project_id": parent["project_id"],
        "service_id": parent["service_id"],
        "is_standby": False,
    }
    assert fork["ha_replicas"] == {"sync_replica_count": 0, "replica_count": 0}
    assert fork["read_replica_sets"] == []


def test_an_unknown_field_is_answered_with_one_that_is_like_it(world: World) -> None:
    answer = world.post(world.services_path, {"nam": "x"})
    assert (answer.status_code, answer.json()["code"]) == (400, "UNKNOWN_FIELD")
    assert "Did you mean 'name'?" in answer.json()["details"]


def test_rule_15_high_availability_is_not_called_inherited(world: World) -> None:
    parent = world.ready()
    body = {"fork_strategy": "NOW", "replica_count": 0}
    answer = world.post(world.path(parent["service_id"], "forkService"), body)
    assert (answer.status_code, answer.json()["code"]) == (400, "UNKNOWN_FIELD")
    assert "replica_count" in answer.json()["message"]


@pytest.mark.parametrize("region_code", ["local", None])
def test_rule_15_the_only_region_may_be_named_and_null_means_absent(world: World, region_code: str | None) -> None:
    parent = world.ready(region_code=region_code, cpu_millis=None, memory_gbs=None, environment_tag=None, addons=None)
    assert (parent["region_code"], parent["metadata"]["environment"]) == ("local", "DEV")
    nothing = dict.fromkeys(("name", "cpu_millis", "memory_gbs", "target_time", "environment_tag", "service_type"))
    fork = world.fork(parent, region_code=region_code, **nothing)
    assert (fork["region_code"], fork["name"], fork["service_type"]) == ("local", "shop-fork", "POSTGRES")


def test_rule_15_another_region_is_refused_with_the_right_one(world: World) -> None:
    parent = world.ready()
    for path in (world.services_path, world.path(parent["service_id"], "forkService")):
        body = {
            "region_code": "us-east-1",
            **({"name": "x"} if path == world.services_path else {"fork_strategy": "NOW"}),
        }
        answer = world.post(path, body)
        assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_REGION")
        assert "'us-east-1'" in answer.json()["message"]
        assert "'local'" in answer.json()["message"]
    assert len(world.listed()) == 1


def test_a_null_is_no_value_of_what_is_required_and_no_excuse_for_what_is_unknown(world: World) -> None:
    for body, code in (({"name": None}, "INVALID_FIELD"), ({"name": "x", "colour": None}, "UNKNOWN_FIELD")):
        answer = world.post(world.services_path, body)
        assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_rule_24_what_does_not_apply_is_absent_and_a_shared_size_is_null(world: World) -> None:
    service = world.ready(cpu_millis="shared", memory_gbs="shared")
    absent = {"vpc_endpoint", "vpcEndpoint", "forked_from", "connection_pooler", "metrics", "initial_password"}
    assert not absent & service.keys()
    spec = service["resources"][0]["spec"]
    assert (spec["cpu_millis"], spec["memory_gbs"]) == (None, None)


def test_rule_30_the_other_name_of_a_time_series_service_is_understood(world: World) -> None:
    assert world.create(service_type="TIMESCALEDB")["service_type"] == "TIMESERIESDB"
    assert world.create(service_type="TIMESCALEDB", addons=["time-series"])["service_type"] == "TIMESERIESDB"


@pytest.mark.parametrize("path", ["followers", "imports"])
def test_rule_30_the_other_name_is_understood_also_of_what_is_made_of_a_source(world: World, path: str) -> None:
    source = {"name": "x", "source_url": "postgresql://a@db.example/shop", "source_password": "source"}
    body = {**source, "service_type": "TIMESCALEDB"}
    answer = world.post(world.services_path.removesuffix("services") + path, body)
    assert answer.status_code == 202, answer.text
    assert answer.json()["service_type"] == "TIMESERIESDB"


@pytest.mark.parametrize("field", ["service_type", "volume_type", "storage", "disk_gbs"])
def test_rule_15_inherited_fields_are_refused_by_name(world: World, field: str) -> None:
    parent = world.ready()
    answer = world.post(world.path(parent["service_id"], "forkService"), {"fork_strategy": "NOW", field: "x"})
    assert answer.status_code == 400
    assert field in answer.json()["message"]
    assert "inherited from the parent" in answer.json()["message"]
    assert len(world.listed()) == 1


def test_rule_15_unknown_fields_are_named_and_unknown_query_parameters_ignored(world: World) -> None:
    answer = world.post(world.services_path, {"name": "shop", "colour": "red", "shape": 1})
    assert answer.status_code == 400
    assert answer.json()["code"] == "UNKNOWN_FIELD"
    assert "colour, shape" in answer.json()["message"]
    assert world.get(world.services_path + "?verbose=1&project_id=x").json() == []


def test_rule_17_deprecated_twins_stand_beside_the_new_names(world: World) -> None:
    service = world.create()
    assert not {"vpc_endpoint", "vpcEndpoint"} & service.keys()
    info = world.get(f"{BASE_PATH}/auth/info").json()
    assert info["api_key"] == info["apiKey"]


def test_rule_18_auth_info_names_the_key_and_its_project(world: World) -> None:
    info = world.get(f"{BASE_PATH}/auth/info").json()
    assert info["type"] == "apiKey"
    key = info["api_key"]
    assert key["public_key"] == world.tenant.key.public_key
    assert key["name"] == world.tenant.key.name
    assert datetime.fromisoformat(key["created"]).tzinfo is not None
    assert key["project"].keys() == {"id", "name", "plan_type"}
    assert key["project"]["id"] == world.tenant.project.id
    assert key["issuing_user"].keys() == {"id", "name", "email"}


def test_rule_18_analytics_succeed_and_logout_answers_204(world: World) -> None:
    calls: list[tuple[str, JsonObject | None]] = [
        ("analytics/identify", {"properties": {"a": [1, {"b": None}]}}),
        ("analytics/identify", {}),
        ("analytics/identify", None),
        ("analytics/track", {"event": "service fork", "properties": {"seconds": 1.5}}),
    ]
    for path, body in calls:
        answer = world.post(f"{BASE_PATH}/{path}", body)
        assert (answer.status_code, answer.json()) == (200, {"status": "success"})
    for logout in (None, {}, {"refresh_token": "x"}):
        answer = world.post(f"{BASE_PATH}/auth/logout", logout)
        assert (answer.status_code, answer.content) == (204, b"")


def test_rule_19_a_key_sees_its_own_project_only(world: World) -> None:
    world.new_tenant("other")
    projects = world.get(f"{BASE_PATH}/projects").json()
    assert projects == [{"id": world.tenant.project.id, "name": "main"}]


@pytest.mark.parametrize("paused", [False, True])
def test_rule_20_ready_and_paused_parents_can_be_forked(world: World, paused: bool) -> None:
    parent = world.ready(environment_tag="PROD", cpu_millis="500", memory_gbs="2")
    if paused:
        world.post(world.path(parent["service_id"], "stop"))
        world.work()
    fork = world.fork(parent)
    assert (fork["name"], fork["metadata"]["environment"]) == ("shop-fork", "DEV")
    assert fork["resources"][0]["spec"] == parent["resources"][0]["spec"]
    assert world.fork(parent, environment_tag="PROD", name="x")["metadata"]["environment"] == "PROD"
    world.work()
    assert world.look(fork)["status"] == "READY"


def test_unknown_endpoints_answer_404_with_an_error_body(world: World) -> None:
    service = world.ready()["service_id"]
    for answer in (world.post(world.path(service, "merge"), {}), world.get(world.path(service, "split"))):
        assert answer.status_code == 404
        assert answer.json().keys() >= {"code", "message"}


def _check_fields(service: JsonObject, beside: set[str]) -> None:
    assert service.keys() == {*FIELDS, *beside}
    for field, kind in FIELDS.items():
        assert isinstance(service[field], kind), field
    assert isinstance(service["endpoint"]["host"], str)
    assert isinstance(service["endpoint"]["port"], int)
    assert isinstance(service["metadata"]["environment"], str)
