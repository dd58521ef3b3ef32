"""Slots that services that follow have for themselves in their sources, over HTTP."""

from dataclasses import replace

import pytest

from ramet.backends.interface.values import Progress, Server
from ramet.errors import Failed, Unavailable
from tests.api.test_following import BODY, path_of
from tests.api.world import World


def test_a_slot_of_the_services_own_needs_a_limit_in_the_source_and_room(world: World) -> None:
    followers = world.backend.followers
    answer = world.post(path_of(world), {**BODY, "create_slot": True})
    assert (answer.status_code, answer.json()["code"]) == (400, "FOLLOW_REFUSED")
    assert "max_slot_wal_keep_size is unknown" in answer.json()["details"]
    limited = {**followers.facts.settings, "max_slot_wal_keep_size": "0"}
    followers.facts = replace(followers.facts, settings=limited, free_slots=0)
    details = world.post(path_of(world), {**BODY, "create_slot": True}).json()["details"]
    assert "max_slot_wal_keep_size is 0" in details
    assert "all replication slots that the source allows exist" in details
    followers.facts = replace(followers.facts, settings={**limited, "max_slot_wal_keep_size": "1024"}, free_slots=1)
    named = world.post(path_of(world), {**BODY, "slot": "standby"})
    assert "no physical replication slot 'standby'" in named.json()["details"]
    assert world.post(path_of(world), {**BODY, "create_slot": True}).status_code == 202


def test_the_services_own_slot_ends_with_the_service_or_its_promotion(world: World) -> None:
    followers = world.backend.followers
    followers.facts = replace(
        followers.facts, settings={**followers.facts.settings, "max_slot_wal_keep_size": "1024"}, free_slots=2
    )
    for verb in ("", "/promote"):
        made = world.post(path_of(world), {**BODY, "create_slot": True}).json()
        world.work()
        assert followers.slots == {f"ramet_{made['service_id']}"}
        path = f"{world.services_path}/{made['service_id']}{verb}"
        assert (world.post(path, {}) if verb else world.delete(path)).status_code == 202
        world.work()
        assert followers.slots == set()


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_creation_that_ends_while_the_source_is_away_says_that_a_slot_stays_there(
    world: World, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    followers = world.backend.followers
    limited = {**followers.facts.settings, "max_slot_wal_keep_size": "1024"}
    followers.facts = replace(followers.facts, settings=limited)
    made = world.post(path_of(world), {**BODY, "create_slot": True}).json()
    path, discard, discarded = world.path(made["service_id"]), followers.discard, list[str | None]()

    def fetch(server: Server, size_bytes: int, timeout_seconds: float) -> Progress:
        followers.problem = "The source cannot be reached."
        if is_deleted:
            assert world.delete(path).status_code == 202
            return Progress(None, "begun")
        raise Failed("LOAD_FAILED", "The source ended the copy.")

    def discard_once(service_id: str) -> str | None:
        discarded.append(None if discarded else discard(service_id))
        return discarded[-1]

    monkeypatch.setattr(followers, "fetch", fetch)
    monkeypatch.setattr(followers, "discard", discard_once)
    world.work()
    slot = f"The slot ramet_{made['service_id']} stays in the source. The source cannot be reached."
    if not is_deleted:
        assert world.look(made)["metadata"]["status_reason"].endswith(slot)
        assert world.delete(path).status_code == 202
        world.work()
    operation = world.get(world.services_path.removesuffix("services") + "operations").json()["operations"][0]
    assert (operation["operation"], operation["steps"][-1]["error"]) == ("delete", slot)


def test_the_history_of_a_deletion_says_that_a_slot_stays_in_the_source(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    followers, destroy = world.backend.followers, world.backend.servers.destroy
    limited = {**followers.facts.settings, "max_slot_wal_keep_size": "1024"}
    followers.facts = replace(followers.facts, settings=limited)
    made = world.post(path_of(world), {**BODY, "create_slot": True}).json()
    world.work()
    followers.problem = "The source cannot be reached."
    failures = [Unavailable("SERVER_STOPPING", "The server is still stopping")]

    def destroy_at_last(service_id: str) -> None:
        if failures:
            raise failures.pop()
        destroy(service_id)

    monkeypatch.setattr(world.backend.servers, "destroy", destroy_at_last)
    assert world.delete(world.path(made["service_id"])).status_code == 202
    world.work()
    operation = world.get(world.services_path.removesuffix("services") + "operations").json()["operations"][0]
    assert (operation["operation"], operation["status"], operation["error"]) == ("delete", "SUCCEEDED", None)
    slot = f"The slot ramet_{made['service_id']} stays in the source. The source cannot be reached."
    assert operation["steps"][-1]["error"] == slot
