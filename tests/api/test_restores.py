"""Restores in place over HTTP: the requests, how far they are, and what is refused."""

from typing import Any

import pytest

from ramet.model.timestamps import rfc3339
from tests.api.world import World


def path_of(world: World, service: dict[str, Any], *parts: str) -> str:
    return "/".join((world.services_path, service["service_id"], *parts))


def with_rows(world: World, *values: str) -> dict[str, Any]:
    service = world.ready()
    for value in values:
        world.backend.commit(service["service_id"], value)
    return dict(service)


def now(world: World) -> str:
    return rfc3339(world.backend.clock())


def test_a_restore_is_followed_to_its_end(world: World) -> None:
    service = with_rows(world, "one")
    target = now(world)
    world.backend.commit(service["service_id"], "mistake")
    answer = world.post(path_of(world, service, "restores"), {"target_time": target})
    assert answer.status_code == 202, answer.text
    accepted = answer.json()
    assert (accepted["status"], accepted["verb"], accepted["step"]) == ("RUNNING", "restore", "Copy the wanted state")
    assert "previous_service_id" not in accepted
    world.work()
    found = world.get(path_of(world, service, "restores", accepted["restore_id"])).json()
    assert (found["status"], found["target_time"]) == ("SUCCEEDED", target)
    assert found["stopped_seconds"] >= 0
    assert world.backend.values(service["service_id"]) == ["one"]
    assert world.get(path_of(world, service, "restores")).json() == {"restores": [found]}
    previous = world.get(f"{world.services_path}/{found['previous_service_id']}").json()
    assert previous["status"] == "PAUSED"
    undone = world.post(path_of(world, service, "restores"), {"from_service_id": previous["service_id"]})
    world.work()
    assert undone.json()["source_service_id"] == previous["service_id"]
    assert world.backend.values(service["service_id"]) == ["one", "mistake"]


def test_a_fork_is_reset_and_rewound(world: World) -> None:
    parent = with_rows(world, "one")
    fork = world.post(path_of(world, parent, "forkService"), {"fork_strategy": "NOW"}).json()
    world.work()
    taken = world.post(path_of(world, fork, "checkpoints"), {"name": "start"})
    assert (taken.status_code, taken.json()["name"], taken.json()["kind"]) == (202, "start", "MANUAL")
    world.work()
    world.backend.commit(fork["service_id"], "tried")
    assert world.post(path_of(world, fork, "rewind"), {"name": "start"}).json()["verb"] == "rewind"
    world.work()
    assert world.backend.values(fork["service_id"]) == ["one"]
    world.backend.commit(parent["service_id"], "two")
    answer = world.post(path_of(world, fork, "reset"), {})
    assert (answer.status_code, answer.json()["verb"]) == (202, "reset")
    world.work()
    assert world.backend.values(fork["service_id"]) == ["one", "two"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "INVALID_RESTORE_POINT"),
        ({"target_time": "2026-01-15T10:30:00Z", "snapshot": "good"}, "INVALID_RESTORE_POINT"),
        ({"target_time": "2026-01-15T10:30:00"}, "INVALID_TARGET_TIME"),
        ({"target_time": "2020-01-15T10:30:00Z"}, "OUTSIDE_RESTORE_WINDOW"),
        ({"snapshot": "never"}, "SNAPSHOT_NOT_FOUND"),
        ({"from_service_id": "a000000000"}, "SERVICE_NOT_FOUND"),
    ],
)
def test_what_cannot_be_restored_is_refused(world: World, body: dict[str, Any], code: str) -> None:
    service = world.ready()
    answer = world.post(path_of(world, service, "restores"), body)
    assert answer.json()["code"] == code, answer.text
    assert world.get(path_of(world, service, "restores")).json() == {"restores": []}


def test_a_prod_service_needs_its_name(world: World) -> None:
    service = world.ready(environment_tag="PROD")
    target = now(world)
    refused = world.post(path_of(world, service, "restores"), {"target_time": target})
    assert (refused.status_code, refused.json()["code"]) == (400, "CONFIRMATION_REQUIRED")
    body = {"target_time": target, "confirm": service["name"]}
    assert world.post(path_of(world, service, "restores"), body).status_code == 202


def test_a_restore_of_another_service_is_not_found(world: World) -> None:
    service, other = world.ready(), world.ready()
    begun = world.post(path_of(world, service, "restores"), {"target_time": now(world)}).json()
    assert world.get(path_of(world, other, "restores", begun["restore_id"])).status_code == 404
