"""What becomes an event, and how events are read."""

import contextlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ramet.acting import Act, Actor, acting
from ramet.control.duties.life_spans import LifeSpans
from ramet.endpoints import BASE_PATH
from ramet.errors import Failed
from ramet.events.stream import remove_old_events
from ramet.model.events import EventType
from ramet.store import services
from tests.api.world import World


def _path(world: World, part: str = "events") -> str:
    return f"{BASE_PATH}/projects/{world.tenant.project.id}/{part}"


def _events(world: World) -> list[dict[str, Any]]:
    """Return the events of the project, oldest first."""
    return list(reversed(world.get(_path(world)).json()["events"]))


def _types(world: World) -> list[str]:
    return [one["type"] for one in _events(world)]


def test_a_service_is_ready_expires_and_is_deleted(world: World) -> None:
    service = world.ready(ttl_seconds=3600)
    world.advance(timedelta(minutes=59))
    for _ in range(2):
        LifeSpans(world.plane, world.clock).tend()
    world.delete(world.path(service["service_id"]))
    world.work()
    assert _types(world) == ["service.ready", "service.expiring", "service.deleted"]
    ready, expiring, _ = _events(world)
    assert ready["data"] == {"service_id": service["service_id"], "service_name": "shop"}
    assert "is deleted at" in expiring["data"]["reason"]


def test_a_fork_that_fails_says_why_and_of_which_parent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = world.ready()

    def fail(*_: object, **__: object) -> None:
        raise Failed("NO_CLONE", "The disk is broken")

    monkeypatch.setattr(world.backend.servers, "start", fail)
    fork = world.fork(parent)
    world.work()
    last = _events(world)[-1]
    assert (last["type"], last["service_id"]) == ("service.failed", fork["service_id"])
    assert last["data"]["parent_service_id"] == parent["service_id"]
    assert "The disk is broken" in last["data"]["reason"]


@pytest.mark.parametrize(
    ("column", "begins", "ends"),
    [
        ("storage_warning", "storage.warning", "storage.relieved"),
        ("archive_delay", "archive.behind", "archive.caught_up"),
        ("archive_problem", "archive.behind", "archive.caught_up"),
        ("down_reason", "service.down", "service.up"),
    ],
)
def test_a_condition_is_an_event_when_it_begins_and_when_it_ends(
    world: World, column: str, begins: str, ends: str
) -> None:
    service = world.ready()
    for reason in (None, "five segments behind", "six segments behind", None, None):
        with world.store.write() as tx:
            services.update_service(tx, service["service_id"], **{column: reason})
    assert _types(world) == ["service.ready", begins, ends]
    assert _events(world)[1]["data"]["reason"] == "five segments behind"


def test_an_archive_that_is_behind_for_two_reasons_has_caught_up_when_both_are_over(world: World) -> None:
    service = world.ready()
    for columns in (
        {"archive_delay": "a"},
        {"archive_problem": "b"},
        {"archive_delay": None},
        {"archive_problem": None},
    ):
        with world.store.write() as tx:
            services.update_service(tx, service["service_id"], **columns)
    assert _types(world) == ["service.ready", "archive.behind", "archive.caught_up"]


def test_a_paused_service_is_neither_ready_nor_up(world: World) -> None:
    service = world.ready()
    with world.store.write() as tx:
        services.update_service(tx, service["service_id"], down_reason="killed")
    world.post(world.path(service["service_id"], "stop"))
    world.work()
    assert _types(world) == ["service.ready", "service.down"]
    world.post(world.path(service["service_id"], "start"))
    world.work()
    assert _types(world) == ["service.ready", "service.down", "service.up"]


def test_the_state_before_a_restore_that_stays_paused_is_not_announced_as_ready(world: World) -> None:
    service = world.ready()
    world.post(world.path(service["service_id"], "checkpoints"), {"name": "start"})
    world.work()
    restore = {"snapshot": "start", "confirm": "shop"}
    assert world.post(world.path(service["service_id"], "restores"), restore).status_code == 202
    world.work()
    assert [one["status"] for one in world.listed()].count("PAUSED") == 1
    assert _types(world) == ["service.ready"]


def test_a_drill_that_failed_is_an_event(world: World) -> None:
    service = world.ready()
    with world.store.write() as tx:
        services.update_service(tx, service["service_id"], drill_failure="A row differs.")
    assert _events(world)[-1]["type"] == "drill.failed"
    assert _events(world)[-1]["data"]["reason"] == "A row differs."


def test_a_quota_that_is_reached_is_an_event_once_in_a_while(world: World) -> None:
    world.projects.change_limits(world.tenant.project.id, {"max_services": 1})
    world.ready()
    for _ in range(3):
        assert world.post(world.services_path, {"name": "more"}).json()["code"] == "PROJECT_LIMIT"
    assert _types(world) == ["service.ready", "quota.reached"]
    assert _events(world)[-1]["data"]["key"] == world.tenant.key.public_key
    world.advance(timedelta(minutes=11))
    world.post(world.services_path, {"name": "more"})
    assert _types(world)[1:] == ["quota.reached", "quota.reached"]


def test_two_quotas_that_are_reached_in_turn_are_an_event_each(world: World) -> None:
    for code in ("PROJECT_LIMIT", "KEY_LIMIT", "PROJECT_LIMIT", "KEY_LIMIT", "NO_FREE_PORT", "PROJECT_LIMIT"):
        act = Act(Actor("key"), "api", project_id=world.tenant.project.id, code=code, outcome="refused")
        with acting(act), world.store.write():
            pass
    assert [one["data"]["code"] for one in _events(world)] == ["PROJECT_LIMIT", "KEY_LIMIT", "NO_FREE_PORT"]


def test_an_event_of_a_transaction_that_is_rolled_back_never_happened(world: World) -> None:
    service = world.ready()
    with contextlib.suppress(ZeroDivisionError), world.store.write() as tx:
        services.update_service(tx, service["service_id"], storage_warning="full")
        raise ZeroDivisionError
    assert _types(world) == ["service.ready"]


def test_events_have_filters_and_pages_and_belong_to_their_project(world: World) -> None:
    first, second = world.ready(), world.ready()
    page = world.get(_path(world) + "?limit=1").json()
    assert page["events"][0]["service_id"] == second["service_id"]
    rest = world.get(_path(world) + f"?limit=1&cursor={page['last_cursor']}").json()
    assert rest["events"][0]["service_id"] == first["service_id"]
    assert "last_cursor" not in rest
    only = world.get(_path(world) + f"?service_id={first['service_id']}&type=service.ready").json()
    assert len(only["events"]) == 1
    assert world.get(_path(world) + "?type=nonsense").json()["code"] == "INVALID_PARAMETER"
    other = world.new_tenant("other")
    theirs = _path(world).replace(world.tenant.project.id, other.project.id)
    assert world.client.get(theirs, auth=other.credentials).json() == {"events": []}


def test_old_events_are_removed_and_numbers_are_not_used_again(world: World) -> None:
    for _ in range(2):
        world.ready()
    world.advance(timedelta(days=40))
    assert remove_old_events(world.store, world.clock(), timedelta(days=30)) == 1
    world.ready()
    assert [one["id"] for one in _events(world)] == [2, 3]


def test_the_beginning_of_what_is_wrong_stays_until_it_is_over(world: World) -> None:
    service, deleted = world.ready(), world.ready()

    def warn(of: dict[str, Any], reason: str | None) -> None:
        with world.store.write() as tx:
            services.update_service(tx, of["service_id"], storage_warning=reason)

    for reason in ("full", None, "full again"):
        warn(service, reason)
    warn(deleted, "full")
    world.delete(world.path(deleted["service_id"]))
    world.work()
    world.advance(timedelta(days=40))
    assert remove_old_events(world.store, world.clock(), timedelta(days=30)) == 5
    assert _types(world) == ["storage.warning", "service.deleted"]
    warn(service, None)
    assert _types(world) == ["storage.warning", "service.deleted", "storage.relieved"]
    world.advance(timedelta(days=40))
    assert remove_old_events(world.store, world.clock(), timedelta(days=30)) == 2


def test_every_kind_of_event_is_documented_by_its_name() -> None:
    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    assert [one.value for one in EventType if f"`{one.value}`" not in page] == []
