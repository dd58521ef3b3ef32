"""The wal_level of a service and its replication slots over HTTP."""

import pytest

from ramet.backends.interface.replication import ReplicationSlots
from ramet.backends.interface.values import Server
from ramet.backends.memory.replication import MemoryReplication
from ramet.errors import Failed
from tests.api.world import JsonObject, World


def set_level(world: World, service: JsonObject, level: str) -> JsonObject:
    answer = world.post(world.path(service["service_id"], "setWalLevel"), {"wal_level": level})
    assert answer.status_code == 202, answer.text
    shown: JsonObject = answer.json()
    return shown


def test_the_level_changes_with_a_restart_and_is_shown(world: World) -> None:
    service = world.ready()
    assert "wal_level" not in service["metadata"]
    assert set_level(world, service, "logical")["status"] == "UPGRADING"
    world.work()
    seen = world.look(service)
    assert (seen["status"], seen["metadata"]["wal_level"]) == ("READY", "logical")
    assert world.backend.volumes[service["service_id"]].replicates
    assert world.get(world.path(service["service_id"], "replication")).json() == {
        "wal_level": "logical",
        "slot_limit_bytes": 4 * 1024**3,
        "slots": [],
    }
    assert set_level(world, service, "logical")["status"] == "READY"
    set_level(world, service, "replica")
    world.work()
    assert "wal_level" not in world.look(service)["metadata"]
    assert not world.backend.volumes[service["service_id"]].replicates


def test_a_new_service_has_the_level_of_its_request_and_a_fork_that_of_its_parent(world: World) -> None:
    service = world.ready(wal_level="logical")
    assert service["metadata"]["wal_level"] == "logical"
    for wanted, expected in ((None, "logical"), ("replica", None), ("logical", "logical")):
        body = {"fork_strategy": "NOW"} | ({} if wanted is None else {"wal_level": wanted})
        fork = world.post(world.path(service["service_id"], "forkService"), body).json()
        assert fork["metadata"].get("wal_level") == expected


def test_only_a_change_reads_the_volume_of_a_stopped_server_elsewhere(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, asked = world.ready(wal_level="logical"), list[bool]()

    def slots(part: MemoryReplication, server: Server, *, reads_volume: bool = True) -> ReplicationSlots:
        asked.append(reads_volume)
        return ReplicationSlots(None, [])

    monkeypatch.setattr(MemoryReplication, "slots", slots)
    world.get(world.path(service["service_id"], "replication"))
    assert asked == [False]
    set_level(world, service, "replica")
    assert asked == [False, True]


@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
def test_slots_are_named_and_keep_the_level(world: World, paused: bool) -> None:
    service = world.ready(wal_level="logical")
    world.backend.volumes[service["service_id"]].slots |= {"move_out", "reports"}
    if paused:
        world.post(world.path(service["service_id"], "stop"))
        world.work()
    shown = world.get(world.path(service["service_id"], "replication")).json()
    assert [slot["name"] for slot in shown["slots"]] == ["move_out", "reports"]
    assert [slot["retained_bytes"] for slot in shown["slots"]] == ([None, None] if paused else [0, 0])
    refused = world.post(world.path(service["service_id"], "setWalLevel"), {"wal_level": "replica"})
    assert (refused.status_code, refused.json()["code"]) == (400, "REPLICATION_SLOTS_EXIST")
    assert "move_out, reports" in refused.json()["message"]
    assert "pg_drop_replication_slot('move_out')" in refused.json()["details"]
    assert ("Resume the service" in refused.json()["details"]) is paused


def test_a_slot_that_is_made_at_the_last_moment_keeps_the_level_and_the_service(world: World) -> None:
    service = world.ready(wal_level="logical")
    set_level(world, service, "replica")
    world.backend.volumes[service["service_id"]].slots.add("late")
    world.work()
    seen = world.look(service)
    assert (seen["status"], seen["metadata"]["wal_level"]) == ("UNSTABLE", "logical")
    assert "slots late" in seen["metadata"]["status_reason"]


def test_a_change_that_fails_keeps_the_level(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = world.ready()

    def refuse(*_: object) -> None:
        raise Failed("SERVER_DIED", "It does not start")

    monkeypatch.setattr(type(world.backend.servers), "await_ready", refuse)
    set_level(world, service, "logical")
    world.work()
    seen = world.look(service)
    assert seen["status"] == "UNSTABLE"
    assert "wal_level" not in seen["metadata"]


def test_a_level_that_postgresql_does_not_know_is_refused(world: World) -> None:
    service = world.ready()
    for wrong in ("minimal", "LOGICAL", 1, None):
        assert world.post(world.path(service["service_id"], "setWalLevel"), {"wal_level": wrong}).status_code == 400
