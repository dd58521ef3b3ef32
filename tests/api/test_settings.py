"""Settings of PostgreSQL that a service has of its own, over HTTP."""

from typing import Any

import pytest

from tests.api.world import World
from tests.audited import entries_of


def settings_of(world: World, service_id: str) -> dict[str, dict[str, Any]]:
    found = world.get(world.path(service_id, "settings")).json()["settings"]
    return {one["name"]: one for one in found}


def change(world: World, service_id: str, settings: dict[str, Any], **others: Any) -> Any:
    made = world.post(world.path(service_id, "settings"), {"settings": settings, **others})
    world.work()
    return made


def test_settings_are_changed_online_reset_and_inherited_by_forks(world: World) -> None:
    service_id = world.ready()["service_id"]
    assert settings_of(world, service_id)["work_mem"]["value"] is None
    made = change(world, service_id, {"work_mem": "64MB", "jit": False, "random_page_cost": 1.1})
    assert (made.status_code, made.json()["status"]) == (202, "UPGRADING")
    found = settings_of(world, service_id)
    assert [found[name]["in_force"] for name in ("work_mem", "jit", "random_page_cost")] == ["64MB", "off", "1.1"]
    change(world, service_id, {"jit": None})
    (*_, reset) = entries_of(world.store, verb="updateSettings")
    assert reset.fields["settings"] == {"jit": None}
    assert settings_of(world, service_id)["jit"]["value"] is None
    fork = world.post(world.path(service_id, "forkService"), {"fork_strategy": "NOW"}).json()
    world.work()
    found = settings_of(world, fork["service_id"])
    assert (found["work_mem"]["value"], found["work_mem"]["in_force"]) == ("64MB", "64MB")


def test_what_needs_a_restart_waits_for_one_that_is_asked_for_or_comes_by_itself(world: World) -> None:
    service_id = world.ready()["service_id"]
    change(world, service_id, {"max_connections": 200})
    found = settings_of(world, service_id)["max_connections"]
    assert (found["value"], found["in_force"], found["pending_restart"]) == ("200", None, True)
    change(world, service_id, {}, restart=True)
    found = settings_of(world, service_id)["max_connections"]
    assert (found["in_force"], found["pending_restart"]) == ("200", False)
    assert change(world, service_id, {"max_connections": 200}).json()["status"] == "READY"


def test_a_paused_service_has_them_when_it_is_resumed(world: World) -> None:
    service_id = world.ready()["service_id"]
    world.post(world.path(service_id, "stop"))
    world.work()
    assert change(world, service_id, {"work_mem": "9MB"}).json()["status"] == "PAUSED"
    found = settings_of(world, service_id)["work_mem"]
    assert (found["value"], found["in_force"]) == ("9MB", None)
    world.post(world.path(service_id, "start"))
    world.work()
    assert settings_of(world, service_id)["work_mem"]["in_force"] == "9MB"


def test_what_postgresql_refuses_changes_nothing(world: World) -> None:
    service_id = world.ready()["service_id"]
    change(world, service_id, {"work_mem": "5MB"})
    world.backend.unacceptable = "9MB"
    refused = world.post(world.path(service_id, "settings"), {"settings": {"work_mem": "9MB"}})
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_SETTING")
    world.backend.unacceptable = ""
    world.post(world.path(service_id, "settings"), {"settings": {"work_mem": "8MB"}})
    world.backend.unacceptable = "8MB"  # PostgreSQL changes its mind
    world.work()
    found = settings_of(world, service_id)["work_mem"]
    assert (found["value"], found["in_force"]) == ("5MB", "5MB")
    assert world.get(world.path(service_id)).json()["status"] == "READY"


@pytest.mark.parametrize(
    "body",
    [
        {"settings": {"fsync": "off"}},
        {"settings": {"work_mem": "1"}},
        {"settings": {"work_mem": [1]}},
        {"settings": {"work_mem": "8MB"}, "restart": "yes"},
        {"settings": "work_mem"},
    ],
)
def test_other_settings_and_values_are_refused(world: World, body: dict[str, Any]) -> None:
    assert world.post(world.path(world.ready()["service_id"], "settings"), body).status_code == 400
