"""The host starts no more servers than it can bear, and says which bound is reached."""

from dataclasses import replace

from ramet.control.sleep import submit_sleep, wake
from tests.api.world import JsonObject, World


def refusal(world: World, service: JsonObject, verb: str, body: object = None) -> JsonObject:
    answer = world.post(world.path(service["service_id"], verb), body)
    assert (answer.status_code, answer.json().get("code")) == (400, "HOST_FULL"), answer.text
    return dict(answer.json())


def test_what_the_host_has_no_room_for_is_refused_and_what_it_has_is_not(world: World) -> None:
    shop = world.ready()
    world.backend.startable = 2
    several = refusal(world, shop, "forkServices", {"fork_strategy": "NOW", "count": 3})
    assert "room for 2 more servers now, and this needs 3 (memory)" in several["message"]
    assert "1 servers run, 1 of them yours: shop" in several["message"]
    world.fork(shop)
    world.create(name="second")
    refused = world.post(world.services_path, {"name": "third"})  # two are being created
    assert (refused.json()["code"], "Pause or delete services" in refused.json()["details"]) == ("HOST_FULL", True)
    world.work()
    world.create(name="third")


def test_whatever_starts_a_server_asks_whether_there_is_room_for_it(world: World) -> None:
    shop, paused = world.ready(), world.ready(name="paused")
    fork = world.fork(shop)
    world.work()
    world.post(world.path(paused["service_id"], "stop"))
    world.work()
    world.backend.startable = 0
    nodes = {"name": "reports", "nodes": 2, "cpu_millis": 1000, "memory_gbs": 4}
    refusal(world, shop, "forkService", {"fork_strategy": "NOW"})
    assert "this needs 2" in refusal(world, shop, "replicaSets", nodes)["message"]
    refusal(world, paused, "start")
    refusal(world, paused, "resize", {"cpu_millis": "500", "memory_gbs": "2"})  # which would resume it
    refusal(world, paused, "setWalLevel", {"wal_level": "logical"})  # likewise
    refusal(world, fork, "reset", {})
    world.post(world.path(shop["service_id"], "stop"))  # what stops servers, or needs none, is not refused
    world.work()
    assert world.look(shop)["status"] == "PAUSED"
    world.backend.startable = 1
    world.post(world.path(shop["service_id"], "start"))
    refusal(world, paused, "start")  # another one is being started
    world.work()
    assert world.look(shop)["status"] == "READY"


def test_a_service_that_sleeps_is_not_woken_without_room_and_its_clients_are_told_why(world: World) -> None:
    shop = world.ready(sleep_after_seconds=300)
    assert submit_sleep(world.plane, shop["service_id"])
    world.work()
    world.backend.startable = 0
    assert wake(world.plane, shop["service_id"])
    told = world.backend.refused[-1][1]
    assert "its host has no room for one more server now" in told
    assert "shop" not in told  # who waits has shown no password yet
    world.backend.startable = None
    wake(world.plane, shop["service_id"])
    world.work()
    assert world.look(shop)["status"] == "READY"


def test_a_service_that_sleeps_is_not_changed_to_stay_awake_without_room(world: World) -> None:
    shop = world.ready(sleep_after_seconds=300)
    assert submit_sleep(world.plane, shop["service_id"])
    world.work()
    world.backend.startable = 0
    refusal(world, shop, "setSleep", {"sleep_after_seconds": None})
    longer = world.post(world.path(shop["service_id"], "setSleep"), {"sleep_after_seconds": 600})  # it sleeps on
    assert longer.status_code == 202


def test_the_memory_of_a_paused_service_counts_when_it_is_restored_in_place(world: World) -> None:
    size = {"cpu_millis": "500", "memory_gbs": "2"}
    paused, running = world.ready(name="paused", **size), world.ready(name="running", **size)
    forks = [world.fork(one) for one in (paused, running)]
    world.work()
    world.post(world.path(forks[0]["service_id"], "stop"))
    world.work()
    world.backend.committed_mbs = 3 * 256
    assert "this needs 256 more" in refusal(world, forks[0], "reset", {})["message"]
    assert world.post(world.path(forks[1]["service_id"], "reset"), {}).status_code == 202


def test_a_paused_service_whose_restore_has_its_memory_can_be_resumed_during_that(world: World) -> None:
    fork = world.fork(world.ready())
    world.work()
    path = world.path(fork["service_id"])
    world.post(f"{path}/stop")
    world.work()
    world.backend.committed_mbs = 2 * 64
    assert world.post(f"{path}/reset", {}).status_code == 202
    assert world.post(f"{path}/start").status_code == 202
    world.work()
    assert world.look(fork)["status"] == "READY"


def test_servers_do_not_come_to_need_more_memory_than_the_host_has(world: World) -> None:
    """A PROD server counts with its size, a DEV one, which is a fork as a rule, with what it holds."""
    size = {"cpu_millis": "500", "memory_gbs": "2"}
    shop = world.ready(environment_tag="PROD", **size)
    world.backend.committed_mbs = 2048 + 256 + 64
    world.fork(shop)
    other = world.new_tenant("other")
    refused = world.post(world.services_path, {"name": "second", "environment_tag": "PROD", **size})
    assert (refused.json()["code"], "committed" in refused.json()["message"]) == ("HOST_FULL", True)
    assert "may need 2304 of 2368 MB of memory" in refused.json()["message"]
    assert "RAMET_MEMORY_COMMIT_PERCENT" in refused.json()["details"]
    stranger = replace(world, tenant=other)
    answer = stranger.post(stranger.services_path, {"name": "theirs", "environment_tag": "PROD", **size})
    assert (answer.json()["code"], "shop" in answer.json()["message"]) == ("HOST_FULL", False)
    small = world.create(name="small")
    world.work()
    refusal(world, shop, "resize", {"cpu_millis": "1000", "memory_gbs": "4"})
    world.post(world.path(shop["service_id"], "stop"))
    world.work()
    assert world.post(world.path(small["service_id"], "resize"), size).status_code == 202
    world.work()
    assert refusal(world, shop, "start")["message"].startswith("The servers that run on the host may need 512 of")
