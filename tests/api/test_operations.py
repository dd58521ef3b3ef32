"""What was done to services can be read, step by step, also after they are gone."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ramet.backends.memory.restore import MemoryRestore
from ramet.endpoints import BASE_PATH
from ramet.errors import Failed
from ramet.model.snapshot import SnapshotKind
from ramet.model.status import FAILED_SHOWN_FOR
from ramet.procedures.servers import submit_snapshot
from tests.api.world import JsonObject, World, open_world


def operations(world: World, service: JsonObject, query: str = "") -> JsonObject:
    answer = world.get(world.path(service["service_id"], "operations") + query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_each_step_of_an_operation_is_listed_with_its_seconds(world: World) -> None:
    service = world.ready()
    *_, creation = operations(world, service)["operations"]
    assert (creation["operation"], creation["status"], creation["error"]) == ("create", "SUCCEEDED", None)
    assert [step["step"] for step in creation["steps"]] == ["initialize", "boot", "secure", "snapshot", "publish"]
    assert all(step["outcome"] == "DONE" and step["seconds"] >= 0 for step in creation["steps"])
    assert creation["seconds"] >= 0
    assert datetime.fromisoformat(creation["finished"]) >= datetime.fromisoformat(creation["created"])


def test_an_operation_under_way_has_no_end_yet(world: World) -> None:
    (creation,) = operations(world, world.create())["operations"]
    assert (creation["status"], creation["finished"], creation["seconds"]) == ("RUNNING", None, None)
    assert creation["steps"] == []


def test_a_failed_fork_keeps_its_reason_after_it_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = world.ready()

    def refuse(*_: object) -> None:
        raise Failed("DISK_FULL", "The disk is full")

    monkeypatch.setattr(MemoryRestore, "recover", refuse)
    fork = world.fork(parent)
    world.work()
    world.advance(FAILED_SHOWN_FOR + timedelta(seconds=1))
    assert world.get(world.path(fork["service_id"])).status_code == 404
    (failed,) = operations(world, fork)["operations"]
    assert (failed["operation"], failed["status"]) == ("fork", "FAILED")
    assert "The disk is full" in failed["error"]
    assert [(step["step"], step["outcome"]) for step in failed["steps"]][-2:] == [
        ("recover", "ABANDONED"),
        ("capture", "UNDONE"),
    ]
    everything = world.get(f"{BASE_PATH}/projects/{world.tenant.project.id}/operations").json()["operations"]
    assert [operation["service_id"] for operation in everything] == [fork["service_id"], parent["service_id"]]


def test_work_that_ramet_starts_by_itself_is_listed_only_when_it_fails(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = world.ready()
    world.post(world.path(service["service_id"], "snapshots"), {"name": "by hand"})
    world.work()

    def named(query: str = "") -> list[str]:
        return sorted(operation["operation"] for operation in operations(world, service, query)["operations"])

    def refuse(*_: object, **__: object) -> None:
        raise Failed("DISK_FULL", "The disk is full")

    with world.store.write() as tx:
        submit_snapshot(tx, service["service_id"], SnapshotKind.SCHEDULED)
    world.work()
    assert named() == named("?all=false") == ["create", "snapshot"]
    assert named("?all=true") == ["create", "prepare", "prepare", "snapshot", "snapshot"]
    monkeypatch.setattr(MemoryRestore, "take_snapshot", refuse)
    with world.store.write() as tx:
        submit_snapshot(tx, service["service_id"], SnapshotKind.SCHEDULED)
    world.work()
    assert named() == ["create", "snapshot", "snapshot"]


def test_pages_follow_each_other_without_gap_or_double(world: World) -> None:
    service = world.ready()
    for verb in ("stop", "start", "stop", "start"):
        world.post(world.path(service["service_id"], verb))
        world.work()
    whole = [operation["id"] for operation in operations(world, service)["operations"]]
    assert len(whole) == 5
    paged, cursor = [], ""
    while True:
        page = operations(world, service, f"?limit=2{cursor}")
        paged += [operation["id"] for operation in page["operations"]]
        if "last_cursor" not in page:
            break
        cursor = f"&cursor={page['last_cursor']}"
    assert paged == whole


def test_operations_of_what_is_no_id_are_not_found_in_any_store(tmp_path: Path, url: str) -> None:
    for world in open_world(tmp_path, url):
        assert world.get(world.path("%00", "operations")).json()["code"] == "SERVICE_NOT_FOUND"


@pytest.mark.parametrize(
    "query", ["?limit=0", "?limit=501", "?limit=x", "?cursor=x", "?cursor=%00", "?limit=-1", "?all=yes"]
)
def test_bad_parameters_are_named(world: World, query: str) -> None:
    service = world.ready()
    answer = world.get(world.path(service["service_id"], "operations") + query)
    assert answer.status_code == 400
    assert query[1:].partition("=")[0] in answer.json()["message"].split("'")[0]


def test_an_invalid_cursor_is_refused_with_its_value(world: World) -> None:
    answer = world.get(world.path(world.ready()["service_id"], "operations") + "?cursor=made-up")
    assert "'made-up'" in answer.json()["message"]


def test_the_history_of_another_project_does_not_exist(world: World) -> None:
    service = world.ready()
    other = world.new_tenant("other")
    for project, expected in ((other.project.id, 404), (world.tenant.project.id, 403)):
        path = f"{BASE_PATH}/projects/{project}/services/{service['service_id']}/operations"
        assert world.client.get(path, auth=other.credentials).status_code == expected
    everything = world.client.get(f"{BASE_PATH}/projects/{other.project.id}/operations", auth=other.credentials)
    assert everything.json() == {"operations": []}


def test_operations_on_a_replica_set_belong_to_its_service(world: World) -> None:
    service = world.ready(cpu_millis="500", memory_gbs="2")
    body = {"name": "reports", "nodes": 1, "cpu_millis": 500, "memory_gbs": 2}
    answer = world.post(world.path(service["service_id"], "replicaSets"), body)
    assert answer.status_code == 202, answer.text
    world.work()
    newest = operations(world, service)["operations"][0]
    assert (newest["operation"], newest["service_name"]) == ("create_replicas", "reports")
    assert newest["service_id"] == service["service_id"]
