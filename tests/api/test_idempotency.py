"""Idempotency-Key: the same key and body answer with the same service and password again."""

from unittest.mock import Mock

import pytest

from ramet.errors import Failed, Unavailable
from ramet.model.passwords import unusable_verifier
from ramet.store import services
from tests.api.world import JsonObject, World

KEY = {"Idempotency-Key": "d3b07384-d9a0-4c5e-8f3e-2b9f0a1c7e55"}


@pytest.mark.parametrize("verb", ["create", "fork"])
def test_a_repeated_request_answers_with_the_same_service(world: World, verb: str) -> None:
    path, body = _request(world, verb)
    first, second = (world.post(path, body, headers=KEY) for _ in range(2))
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json() == second.json()
    assert first.json()["initial_password"]


@pytest.mark.parametrize("verb", ["create", "fork"])
def test_a_password_that_was_changed_is_not_announced_again(world: World, verb: str) -> None:
    path, body = _request(world, verb)
    made = world.post(path, body, headers=KEY).json()
    world.work()
    again = world.post(path, body, headers=KEY).json()
    assert again["initial_password"] == made["initial_password"]
    changed = world.post(world.path(made["service_id"], "updatePassword"), {"password": "another"})
    assert changed.status_code == 204
    answer = world.post(path, body, headers=KEY)
    assert (answer.status_code, answer.json()["service_id"]) == (202, made["service_id"])
    assert "initial_password" not in answer.json()


@pytest.mark.parametrize("verb", ["create", "fork"])
def test_the_password_is_announced_again_while_the_server_cannot_be_asked(world: World, verb: str) -> None:
    path, body = _request(world, verb)
    made = world.post(path, body, headers=KEY).json()
    world.work()
    world.backend.crash(made["service_id"])
    assert world.post(path, body, headers=KEY).json()["initial_password"] == made["initial_password"]
    world.post(world.path(made["service_id"], "stop"))
    world.work()
    again = world.post(path, body, headers=KEY).json()
    assert (again["status"], again["initial_password"]) == ("PAUSED", made["initial_password"])


def test_a_password_that_a_service_was_never_given_is_not_announced_by_guess(world: World) -> None:
    made = world.post(world.services_path, {"name": "shop"}, headers=KEY).json()
    world.work()
    world.backend.crash(made["service_id"])
    with world.store.write() as tx:  # as after a recovery without the secrets of its installation
        services.update_service(tx, made["service_id"], verifier=unusable_verifier().reveal())
    assert "initial_password" not in world.post(world.services_path, {"name": "shop"}, headers=KEY).json()


@pytest.mark.parametrize("verb", ["create", "fork"])
def test_the_same_key_with_another_body_is_refused(world: World, verb: str) -> None:
    path, body = _request(world, verb)
    world.post(path, body, headers=KEY)
    before = world.listed()
    answer = world.post(path, {**body, "name": "other"}, headers=KEY)
    assert (answer.status_code, answer.json()["code"]) == (400, "IDEMPOTENCY_KEY_REUSED")
    assert world.listed() == before


@pytest.mark.parametrize("verb", ["create", "fork"])
def test_a_service_that_is_being_deleted_is_made_again(world: World, verb: str) -> None:
    path, body = _request(world, verb)
    made = world.post(path, body, headers=KEY).json()
    world.work()
    world.delete(world.path(made["service_id"]))
    again = world.post(path, body, headers=KEY).json()
    assert (again["status"], again["service_id"] == made["service_id"]) == ("QUEUED", False)
    assert world.post(path, body, headers=KEY).json() == again


@pytest.mark.parametrize("is_over", [True, False], ids=["failed", "being undone"])
def test_a_service_whose_creation_fails_is_made_again(
    world: World, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    made = world.post(world.services_path, {"name": "shop"}, headers=KEY).json()
    with monkeypatch.context() as failing:
        failing.setattr(world.backend.servers, "initialize", Mock(side_effect=Failed("DISK_FULL", "The disk is full")))
        if not is_over:
            failing.setattr(world.backend.servers, "destroy", Mock(side_effect=Unavailable("DISK_SLOW", "It is slow")))
        world.work()
    assert world.look(made)["status"] == "UNSTABLE"
    again = world.post(world.services_path, {"name": "shop"}, headers=KEY).json()
    assert (again["status"], again["service_id"] == made["service_id"]) == ("QUEUED", False)
    world.work()
    assert world.look(again)["status"] == "READY"


def test_requests_without_a_key_make_a_service_each(world: World) -> None:
    assert world.create()["service_id"] != world.create()["service_id"]


def test_keys_of_different_projects_do_not_meet(world: World) -> None:
    other = world.new_tenant("other")
    path = world.services_path.replace(world.tenant.project.id, other.project.id)
    mine = world.post(world.services_path, {"name": "x"}, headers=KEY).json()
    theirs = world.client.post(path, json={"name": "x"}, headers=KEY, auth=other.credentials).json()
    assert mine["service_id"] != theirs["service_id"]


def _request(world: World, verb: str) -> tuple[str, JsonObject]:
    if verb == "create":
        return world.services_path, {"name": "shop"}
    return world.path(world.ready()["service_id"], "forkService"), {"fork_strategy": "NOW"}
