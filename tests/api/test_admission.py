"""The host makes no more servers than it has memory for."""

from tests.api.world import World


def test_what_the_host_has_no_memory_for_is_refused_and_what_it_has_is_not(world: World) -> None:
    shop = world.ready()
    world.backend.startable = 2
    several = world.post(world.path(shop["service_id"], "forkServices"), {"fork_strategy": "NOW", "count": 3})
    assert (several.status_code, several.json()["code"]) == (400, "HOST_FULL")
    assert "memory for 2 more servers now, and this needs 3" in several.json()["message"]
    world.fork(shop)
    world.create(name="second")
    refused = world.post(world.services_path, {"name": "third"})  # two are being created
    assert (refused.json()["code"], "RAMET_MEMORY_RESERVE_PERCENT" in refused.json()["details"]) == ("HOST_FULL", True)
    world.work()
    world.create(name="third")
