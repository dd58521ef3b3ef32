"""Rename, resize, password, environment, replicas and private networks over HTTP."""

from datetime import datetime

import pytest

from ramet.backends.interface.values import ExtensionUpdate, Source
from ramet.endpoints import BASE_PATH
from ramet.errors import Failed, Invalid
from ramet.model.service import Service
from ramet.model.status import FAILED_SHOWN_FOR
from ramet.store import services
from tests.api.world import JsonObject, World


def test_a_rename_shows_at_once_and_names_need_not_be_unique(world: World) -> None:
    first, second = world.ready(), world.ready(name="other")
    answer = world.post(world.path(second["service_id"], "rename"), {"name": "shop"})
    assert (answer.status_code, answer.json()["name"]) == (200, "shop")
    assert [service["name"] for service in world.listed()] == ["shop", "shop"]
    assert world.look(first)["name"] == "shop"


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "x" * 129}, {"name": "a\nb"}, {"name": 1}, {"title": "x"}])
def test_a_bad_name_is_refused_and_changes_nothing(world: World, body: JsonObject) -> None:
    service = world.ready()
    assert world.post(world.path(service["service_id"], "rename"), body).status_code == 400
    assert world.look(service)["name"] == "shop"


def test_the_environment_changes_with_a_sentence(world: World) -> None:
    service = world.ready()
    answer = world.post(world.path(service["service_id"], "setEnvironment"), {"environment": "PROD"})
    assert answer.status_code == 200
    assert "PROD" in answer.json()["message"]
    assert world.look(service)["metadata"]["environment"] == "PROD"
    assert world.post(world.path(service["service_id"], "setEnvironment"), {"environment": "prod"}).status_code == 400


def test_what_is_said_of_prod_is_what_it_has_and_protection_alone_refuses_a_deletion(world: World) -> None:
    paths = world.client.get(f"{BASE_PATH}/openapi.json").json()["paths"]
    found = next(path["post"] for path in paths.values() if path.get("post", {}).get("operationId") == "setEnvironment")
    assert "setProtection" in found["description"]
    service = world.ready(environment_tag="PROD")
    path = world.path(service["service_id"])
    for protected, status in ((True, 400), (False, 202)):
        world.post(f"{path}/setProtection", {"protected": protected})
        assert world.delete(path).status_code == status


@pytest.mark.parametrize("cpu_and_memory", [("1000", "4"), (1000, 4), ("shared", "shared")])
def test_a_resize_shows_upgrading_first_and_then_the_new_size(
    world: World, cpu_and_memory: tuple[str | int, str | int]
) -> None:
    service = world.ready(cpu_millis="500", memory_gbs="2")
    body = dict(zip(("cpu_millis", "memory_gbs"), cpu_and_memory, strict=True))
    answer = world.post(world.path(service["service_id"], "resize"), body)
    assert (answer.status_code, answer.json()["status"]) == (202, "UPGRADING")
    world.work()
    changed = world.look(service)
    assert changed["status"] == "READY"
    expected = (None, None) if cpu_and_memory[0] == "shared" else (1000, 4)
    for shown in (answer.json(), changed):
        spec = shown["resources"][0]["spec"]
        assert (spec["cpu_millis"], spec["memory_gbs"]) == expected


def test_rule_26_a_paused_service_that_is_resized_becomes_ready(world: World) -> None:
    service = world.ready()
    world.post(world.path(service["service_id"], "stop"))
    world.work()
    body = {"cpu_millis": "500", "memory_gbs": "2"}
    answer = world.post(world.path(service["service_id"], "resize"), body)
    assert (answer.status_code, answer.json()["status"]) == (202, "UPGRADING")
    world.work()
    assert (world.look(service)["status"], world.look(service)["paused"]) == ("READY", False)
    assert world.look(service)["resources"][0]["spec"]["cpu_millis"] == 500


def test_a_resize_that_fails_keeps_the_old_size_and_says_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = world.ready(cpu_millis="500", memory_gbs="2")

    def refuse(*_: object) -> None:
        raise Failed("SERVER_DIED", "There is not that much memory")

    monkeypatch.setattr(type(world.backend.servers), "await_ready", refuse)
    world.post(world.path(service["service_id"], "resize"), {"cpu_millis": "1000", "memory_gbs": "4"})
    world.work()
    seen = world.look(service)
    assert seen["status"] == "UNSTABLE"
    assert "not that much memory" in seen["metadata"]["status_reason"]
    assert seen["resources"][0]["spec"]["memory_gbs"] == 2
    world.advance(FAILED_SHOWN_FOR * 2)
    assert world.get(world.path(service["service_id"])).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"cpu_millis": "500"},
        {"cpu_millis": "0", "memory_gbs": "0"},
        {"cpu_millis": "-1", "memory_gbs": "2"},
        {"cpu_millis": "500", "memory_gbs": "shared"},
        {"cpu_millis": "500", "memory_gbs": "100000"},
        {"cpu_millis": "500", "memory_gbs": "2", "nodes": 1},
    ],
)
def test_a_bad_size_is_refused_and_changes_nothing(world: World, body: JsonObject) -> None:
    service = world.ready()
    assert world.post(world.path(service["service_id"], "resize"), body).status_code == 400
    assert world.look(service)["resources"] == service["resources"]
    assert world.look(service)["status"] == "READY"


def test_a_password_is_changed_without_an_answer_and_only_while_the_service_is_ready(world: World) -> None:
    service = world.ready()
    before = world.backend.volumes[service["service_id"]].verifier
    answer = world.post(world.path(service["service_id"], "updatePassword"), {"password": 'it\'s a §ecret \\ "x"'})
    assert (answer.status_code, answer.content) == (204, b"")
    after = world.backend.volumes[service["service_id"]].verifier
    assert after is not None
    assert after != before
    world.post(world.path(service["service_id"], "stop"))
    world.work()
    refused = world.post(world.path(service["service_id"], "updatePassword"), {"password": "other"})
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_STATE")


def test_a_changed_password_is_known_to_its_server_alone_so_that_no_two_records_differ(world: World) -> None:
    service_id = world.ready()["service_id"]

    def recorded() -> Service | None:
        with world.store.read() as tx:
            return services.get_service(tx, service_id)

    before = recorded()
    assert world.post(world.path(service_id, "updatePassword"), {"password": "another"}).status_code == 204
    assert recorded() == before


@pytest.mark.parametrize("password", ["", "x" * 1001, "a\tb", "a\u0000b"])
def test_a_password_that_cannot_be_typed_is_refused_and_not_repeated(world: World, password: str) -> None:
    service = world.ready()
    answer = world.post(world.path(service["service_id"], "updatePassword"), {"password": password})
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PASSWORD")
    assert not password or password not in answer.text


def test_zero_high_availability_replicas_are_accepted_and_more_refused(world: World) -> None:
    service = world.ready()
    for body in ({}, {"replica_count": 0}, {"sync_replica_count": 0, "replica_count": 0}):
        answer = world.post(world.path(service["service_id"], "setHA"), body)
        assert (answer.status_code, answer.json()["ha_replicas"]["replica_count"]) == (202, 0)
    refused = world.post(world.path(service["service_id"], "setHA"), {"sync_replica_count": 1})
    assert (refused.status_code, refused.json()["code"]) == (400, "HA_NOT_AVAILABLE")
    assert refused.json()["details"] == "Send 0."
    negative = world.post(world.path(service["service_id"], "setHA"), {"sync_replica_count": -1})
    assert negative.status_code == 400
    assert "sync_replica_count" in negative.json()["message"]


def test_standbys_are_made_where_there_are_hosts_for_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = world.ready()
    path = world.path(service["service_id"], "setHA")
    monkeypatch.setattr(world.backend, "has_standbys", True)
    accepted = world.post(path, {"sync_replica_count": 1})
    assert (accepted.status_code, accepted.json()["status"]) == (202, "UPGRADING")
    world.work()
    assert world.look(service)["ha_replicas"] == {"sync_replica_count": 1, "replica_count": 1}
    refused = world.post(path, {"sync_replica_count": 2, "replica_count": 1})
    assert (refused.status_code, refused.json()["code"]) == (400, "CONTRADICTION")
    assert world.post(path, {"replica_count": 5}).status_code == 400
    world.post(path, {"replica_count": 0})
    world.work()
    assert world.look(service)["ha_replicas"] == {"sync_replica_count": 0, "replica_count": 0}
    world.post(world.path(service["service_id"], "stop"))
    world.work()
    paused = world.post(path, {"replica_count": 2}).json()
    assert (paused["status"], paused["ha_replicas"]["replica_count"]) == ("PAUSED", 2)


def test_there_are_no_private_networks_and_changes_say_what_to_use_instead(world: World) -> None:
    base = f"{BASE_PATH}/projects/{world.tenant.project.id}/vpcs"
    assert world.get(base).json() == []
    created = world.post(base, {"name": "x", "cidr": "10.0.0.0/16", "region_code": "local"})
    service = world.ready()["service_id"]
    refusals = [
        created,
        world.post(f"{base}/1/peerings", {"peer_account_id": "1", "peer_region_code": "x", "peer_vpc_id": "y"}),
        world.post(world.path(service, "attachToVPC"), {"vpc_id": "1"}),
        world.post(world.path(service, "detachFromVPC"), {"vpc_id": "1"}),
    ]
    assert [answer.status_code for answer in refusals] == [400] * 4
    assert all("the endpoint of the service" in answer.json()["details"] for answer in refusals)
    missing = [world.get(f"{base}/1"), world.delete(f"{base}/1"), world.post(f"{base}/1/rename", {"name": "x"})]
    assert [answer.status_code for answer in missing] == [404] * 3
    assert world.get(f"{base}/1/peerings").json() == []


def test_changes_to_a_service_that_is_being_deleted_or_gone_are_refused(world: World) -> None:
    service = world.ready()["service_id"]
    world.delete(world.path(service))
    bodies = {
        "rename": {"name": "x"},
        "setEnvironment": {"environment": "DEV"},
        "resize": {"cpu_millis": "500", "memory_gbs": "2"},
        "updatePassword": {"password": "x"},
    }
    assert {world.post(world.path(service, verb), body).status_code for verb, body in bodies.items()} == {400}
    world.work()
    assert {world.post(world.path(service, verb), body).status_code for verb, body in bodies.items()} == {404}


def test_a_service_is_optimized_while_it_serves(world: World) -> None:
    service = world.ready()
    assert world.post(world.path(service["service_id"], "optimize")).json()["status"] == "OPTIMIZING"
    refused = world.post(world.path(service["service_id"], "optimize"))
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_STATE")
    world.work()
    assert world.look(service)["status"] == "READY"


def test_extensions_that_are_behind_are_named(world: World) -> None:
    service = world.ready()
    world.backend.outdated = [
        ExtensionUpdate("tsdb", "vector", "0.7.0", "0.8.0"),
        ExtensionUpdate("tsdb", "postgis", "3.4", "4.0", "it has no update from 3.4 to 4.0"),
    ]
    answered = world.post(world.path(service["service_id"], "updateExtensions"), {})
    vector = {"database": "tsdb", "extension": "vector", "from_version": "0.7.0", "to_version": "0.8.0"}
    assert (answered.status_code, len(answered.json()), answered.json()[0]) == (200, 2, vector)
    one = world.post(world.path(service["service_id"], "updateExtensions"), {"extension": "postgis"}).json()
    assert [each["problem"] for each in one] == ["it has no update from 3.4 to 4.0"]
    for name in ("nothing", "\0"):
        refused = world.post(world.path(service["service_id"], "updateExtensions"), {"extension": name})
        assert (refused.status_code, refused.json()["code"]) == (400, "EXTENSION_NOT_INSTALLED")
        assert repr(name) in refused.json()["message"]


def test_a_fork_and_its_dry_run_are_refused_where_its_state_needs_a_library_that_is_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = world.ready()

    def refuse(source: Source, as_of: datetime | None, count: int) -> None:
        if as_of is not None:
            raise Invalid("EXTENSION_VERSION_MISSING", "the library is not installed")

    monkeypatch.setattr(world.backend.restore, "check_fork", refuse)
    for query in ("?dry_run=true", ""):
        path = world.path(service["service_id"], "forkService") + query
        refused = world.post(path, {"fork_strategy": "LAST_SNAPSHOT"})
        assert (refused.status_code, refused.json()["code"]) == (400, "EXTENSION_VERSION_MISSING")
    assert world.post(world.path(service["service_id"], "forkService"), {"fork_strategy": "NOW"}).status_code == 202
