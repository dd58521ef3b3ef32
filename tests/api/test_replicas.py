"""Read replica sets over HTTP, as existing clients use them."""

from collections.abc import Iterator

import pytest

from harness.waiting import eventually
from ramet.control.subjects import servers_of
from ramet.model.logs import LogEntry
from tests.api.world import JsonObject, World

BODY = {"name": "reports", "nodes": 2, "cpu_millis": 500, "memory_gbs": 2}
FIELDS = {
    "id",
    "name",
    "status",
    "nodes",
    "cpu_millis",
    "memory_gbs",
    "metadata",
    "endpoint",
}


@pytest.fixture
def service(world: World) -> JsonObject:
    return world.ready()


@pytest.fixture
def working(world: World, service: JsonObject) -> Iterator[World]:
    """A world whose worker works by itself."""
    world.worker.start()
    yield world
    world.worker.stop()


def path(world: World, service: JsonObject, *parts: str) -> str:
    return world.path(service["service_id"], "/".join(("replicaSets", *parts)))


def create(world: World, service: JsonObject, **fields: object) -> JsonObject:
    answer = world.post(path(world, service), {**BODY, **fields})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def test_a_set_is_accepted_as_creating_and_becomes_active(world: World, service: JsonObject) -> None:
    made = create(world, service)
    assert made.keys() == FIELDS
    assert (made["status"], made["nodes"], made["cpu_millis"], made["memory_gbs"]) == ("creating", 2, 500, 2)
    world.work()
    (listed,) = world.get(path(world, service)).json()
    assert listed == {**made, "status": "active"}
    assert world.look(service)["read_replica_sets"] == [listed]
    assert world.listed()[0]["read_replica_sets"] == [listed]


def test_there_are_none_at_first(world: World, service: JsonObject) -> None:
    assert world.get(path(world, service)).json() == []


def test_its_id_names_a_service_too(world: World, service: JsonObject) -> None:
    made = create(world, service)
    assert world.get(world.path(made["id"])).json()["status"] in ("QUEUED", "CONFIGURING")
    world.work()
    found = world.get(world.path(made["id"])).json()
    assert found["status"] == "READY"
    assert found["endpoint"] == made["endpoint"]
    parent = {"project_id": world.tenant.project.id, "service_id": service["service_id"]}
    assert found["forked_from"] == {**parent, "is_standby": True}
    assert "fork_strategy" not in found["metadata"]
    assert [each["service_id"] for each in world.listed()] == [service["service_id"]]


def test_a_deleted_set_ends_in_not_found(world: World, service: JsonObject) -> None:
    made = create(world, service)
    world.work()
    answer = world.delete(path(world, service, made["id"]))
    assert (answer.status_code, answer.content) == (202, b"")
    assert world.get(path(world, service)).json()[0]["status"] == "deleting"
    world.work()
    assert world.get(world.path(made["id"])).status_code == 404
    assert world.delete(path(world, service, made["id"])).status_code == 404


def test_a_resize_takes_numeric_strings_and_is_seen(world: World, service: JsonObject) -> None:
    made = create(world, service)
    world.work()
    answer = world.post(path(world, service, made["id"], "resize"), {"cpu_millis": "1000", "memory_gbs": "4"})
    assert answer.status_code == 202
    assert answer.json()["message"]
    assert world.get(path(world, service)).json()[0]["status"] == "resizing"
    world.work()
    (after,) = world.get(path(world, service)).json()
    assert (after["status"], after["cpu_millis"], after["memory_gbs"]) == ("active", 1000, 4)


def test_a_set_has_a_separate_environment(world: World, service: JsonObject) -> None:
    made = create(world, service)
    answer = world.post(path(world, service, made["id"], "setEnvironment"), {"environment": "PROD"})
    assert answer.status_code == 200
    assert world.get(path(world, service)).json()[0]["metadata"]["environment"] == "PROD"


def test_a_set_has_a_separate_pooler(working: World, service: JsonObject) -> None:
    made = create(working, service)
    set_path = path(working, service, made["id"])
    eventually(lambda: working.get(path(working, service)).json()[0]["status"] != "creating")
    assert working.post(f"{set_path}/enablePooler").status_code == 200
    pooled = working.get(path(working, service)).json()[0]
    assert pooled["connection_pooler"]["endpoint"]["port"] != pooled["endpoint"]["port"]
    assert working.post(f"{set_path}/disablePooler").status_code == 200
    assert "connection_pooler" not in working.get(path(working, service)).json()[0]


def test_a_paused_service_shows_why_its_set_does_not_serve(world: World, service: JsonObject) -> None:
    made = create(world, service)
    world.work()
    world.post(world.path(service["service_id"], "stop"))
    world.work()
    (listed,) = world.get(path(world, service)).json()
    assert listed["status"] == "error"
    assert "paused" in listed["metadata"]["status_reason"]
    assert world.get(world.path(made["id"])).json()["status"] == "PAUSED"


@pytest.mark.parametrize(
    "fields",
    [
        {"nodes": 0},
        {"nodes": 9},
        {"nodes": "2"},
        {"name": ""},
        {"cpu_millis": "shared", "memory_gbs": "shared"},
        {"cpu_millis": 0},
        {"region_code": "local"},
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(world: World, service: JsonObject, fields: JsonObject) -> None:
    answer = world.post(path(world, service), {**BODY, **fields})
    assert answer.status_code == 400
    assert answer.json()["message"]


def test_an_unknown_set_is_not_found(world: World, service: JsonObject) -> None:
    for verb in ("resize", "setEnvironment", "enablePooler", "disablePooler"):
        body = {"resize": {"cpu_millis": "500", "memory_gbs": "2"}, "setEnvironment": {"environment": "DEV"}}.get(verb)
        answer = world.post(path(world, service, "a" * 10, verb), body)
        assert answer.status_code == 404
        assert answer.json()["code"] == "REPLICA_SET_NOT_FOUND"


def test_the_log_of_each_node_is_read_by_the_sets_id(world: World, service: JsonObject) -> None:
    made = create(world, service)
    world.work()
    with world.store.read() as tx:
        nodes = servers_of(tx, made["id"])
    for number, node in enumerate(nodes):
        world.backend.volumes[node.service_id].log.append(LogEntry(world.clock(), "LOG", f"node {number}"))
    read = [world.get(world.path(made["id"], "logs") + query).json()["logs"] for query in ("", "?node=0", "?node=1")]
    assert read == [["node 0"], ["node 0"], ["node 1"]]
    refused = world.get(world.path(made["id"], "logs") + "?node=2")
    assert (refused.status_code, refused.json()["code"]) == (400, "NO_SUCH_NODE")
    assert "the nodes are 0 to 1" in refused.json()["message"]


def test_the_operations_of_a_set_are_read_by_its_id_also_when_it_is_gone(world: World, service: JsonObject) -> None:
    made = create(world, service)
    world.work()
    world.delete(path(world, service, made["id"]))
    world.work()
    assert world.get(world.path(made["id"])).status_code == 404
    found = world.get(world.path(made["id"], "operations")).json()["operations"]
    assert [one["operation"] for one in found] == ["delete_replicas", "create_replicas"]


def test_verbs_of_services_say_where_those_of_a_set_are(world: World, service: JsonObject) -> None:
    made = world.post(path(world, service), BODY).json()
    world.worker.run_until_idle()
    for verb, body in (("setHA", {"replica_count": 0}), ("resize", {"cpu_millis": 500, "memory_gbs": 2}), ("stop", {})):
        refused = world.post(world.path(made["id"], verb), body)
        assert (refused.status_code, refused.json()["code"]) == (404, "SERVICE_NOT_FOUND")
        assert f"/services/{service['service_id']}/replicaSets/{made['id']}" in refused.json()["details"]
