"""Upgrades over HTTP: the request, how far it is, its report, and its refusal."""

from typing import Any

from ramet.model.upgrade import Refusal, UpgradeExtension
from tests.api.world import World


def path_of(world: World, service: dict[str, Any], *parts: str) -> str:
    return "/".join((world.services_path, service["service_id"], "upgrades", *parts))


def begun(world: World, service: dict[str, Any], **fields: Any) -> dict[str, Any]:
    answer = world.post(path_of(world, service), {"to_version": 19, "trial": True, **fields})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def test_a_trial_is_followed_to_its_report(world: World) -> None:
    service = world.ready()
    accepted = begun(world, service)
    assert (accepted["status"], accepted["step"]) == ("RUNNING", "Copy the service's data")
    assert (accepted["from_version"], accepted["to_version"]) == ("18.0", "19.0")
    assert "initial_password" not in accepted
    world.work()
    found = world.get(path_of(world, service, accepted["upgrade_id"])).json()
    assert (found["status"], found["row_differences"], found["method"]) == ("SUCCEEDED", [], "clone")
    assert "step" not in found
    assert world.get(path_of(world, service)).json() == {"upgrades": [found]}
    assert [one["service_id"] for one in world.listed()] == [service["service_id"]]


def test_the_password_of_a_fork_that_is_kept_is_in_the_first_response_only(world: World) -> None:
    service = world.ready()
    accepted = begun(world, service, keep_fork=True)
    assert accepted["initial_password"]
    world.work()
    assert "initial_password" not in world.get(path_of(world, service, accepted["upgrade_id"])).json()
    kept = world.get(f"{world.services_path}/{accepted['upgrade_id']}").json()
    assert (kept["status"], kept["metadata"]["pg_major"]) == ("READY", 19)


def test_a_refusal_has_all_reasons(world: World) -> None:
    service = world.ready()
    world.backend.upgrades.refusals[:] = [Refusal("extension postgis", "it is missing", "Install it.")]
    answer = world.post(path_of(world, service), {"to_version": 19})
    assert (answer.status_code, answer.json()["code"]) == (400, "UPGRADE_REFUSED")
    assert answer.json()["details"] == "extension postgis: it is missing. Install it."


def test_versions_of_extensions_are_in_the_report(world: World) -> None:
    service = world.ready()
    world.backend.upgrades.extensions[:] = [UpgradeExtension("tsdb", "vector", "0.7", "0.8")]
    assert begun(world, service)["extensions"] == [
        {"database": "tsdb", "name": "vector", "version": "0.7", "new_version": "0.8"}
    ]


def test_an_upgrade_of_another_service_is_not_found(world: World) -> None:
    service, other = world.ready(), world.ready()
    accepted = begun(world, service)
    assert world.get(path_of(world, other, accepted["upgrade_id"])).status_code == 404


def test_a_service_is_created_with_the_version_that_was_asked_for(world: World) -> None:
    assert world.ready(pg_major=16)["metadata"]["pg_major"] == 16
    refused = world.post(world.services_path, {"name": "shop", "pg_major": 14})
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_VERSION")
    assert "15 or 16 or 17 or 18 or 19 (got 14)" in refused.json()["message"]
