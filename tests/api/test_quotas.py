"""Quotas of projects and keys: what is over one is refused, with what uses it up and what would free it."""

import pytest

from ramet.model.keys import KeyLimits
from ramet.model.metrics import Usage
from ramet.model.rights import Role
from ramet.store import metrics
from tests.api.world import JsonObject, World

SMALL = {"cpu_millis": "500", "memory_gbs": "1"}


def _limit(world: World, **limits: int | None) -> None:
    world.projects.change_limits(world.tenant.project.id, limits)


def _try_create(world: World, **fields: object) -> JsonObject:
    return dict(world.post(world.services_path, {"name": "next", **fields}).json())


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"max_services": 1}, "may have 1 services, and would have 2 (max_services); it has shop"),
        ({"max_cpu_millis": 900}, "may have 900 thousandths of a core, and would have 1000 (max_cpu_millis)"),
        (
            {"max_memory_gbs": 1},
            "may have 1 GB of memory, and would have 2 (max_memory_gbs); most of it is used by shop",
        ),
    ],
)
def test_what_is_over_a_limit_of_the_project_is_refused(world: World, limit: dict[str, int], said: str) -> None:
    world.ready(**SMALL)
    _limit(world, **limit)
    refused = _try_create(world, **SMALL)
    assert refused["code"] == "PROJECT_LIMIT"
    assert said in refused["message"]
    assert "ramet project limits" in refused["details"]


def test_a_shared_service_uses_no_memory_of_the_quota(world: World) -> None:
    world.ready(**SMALL)
    _limit(world, max_memory_gbs=1, max_cpu_millis=500)
    assert _try_create(world)["status"] == "QUEUED"


def test_a_resize_and_replicas_count(world: World) -> None:
    shop = world.ready(**SMALL)
    _limit(world, max_memory_gbs=2)
    larger = world.post(world.path(shop["service_id"], "resize"), {"cpu_millis": "500", "memory_gbs": "3"})
    assert larger.json()["code"] == "PROJECT_LIMIT"
    body = {"name": "x", "nodes": 2, "cpu_millis": 500, "memory_gbs": 1}
    assert world.post(world.path(shop["service_id"], "replicaSets"), body).json()["code"] == "PROJECT_LIMIT"
    smaller = world.post(world.path(shop["service_id"], "resize"), {"cpu_millis": "500", "memory_gbs": "1"})
    assert smaller.status_code == 202


def test_a_resize_counts_as_soon_as_it_is_accepted_and_one_to_less_until_it_is_over(world: World) -> None:
    one, other = (world.ready(name=name, cpu_millis="500", memory_gbs="2") for name in ("one", "other"))
    _limit(world, max_memory_gbs=8, max_cpu_millis=2000)
    larger = {"cpu_millis": "500", "memory_gbs": "6"}
    assert world.post(world.path(one["service_id"], "resize"), larger).status_code == 202
    assert world.post(world.path(other["service_id"], "resize"), larger).json()["code"] == "PROJECT_LIMIT"
    assert _try_create(world, **larger)["code"] == "PROJECT_LIMIT"
    world.work()
    smaller = {"cpu_millis": "500", "memory_gbs": "2"}
    assert world.post(world.path(one["service_id"], "resize"), smaller).status_code == 202
    assert _try_create(world, **smaller)["code"] == "PROJECT_LIMIT"
    world.work()
    assert _try_create(world, **smaller)["status"] == "QUEUED"


def test_a_key_has_limits_of_its_own(world: World) -> None:
    world.ready()
    developer = world.with_key(Role.DEVELOPER, limits=KeyLimits(max_services=1))
    developer.create(name="mine")
    refused = _try_create(developer)
    assert (refused["code"], "ramet key update" in refused["details"]) == ("KEY_LIMIT", True)
    world.create(name="others may")


def test_limits_say_what_is_used(world: World) -> None:
    shop = world.ready(**SMALL)
    world.fork(shop)
    path = f"{world.services_path.rpartition('/')[0]}/limits"
    used = world.get(path).json()["used"]
    assert used == {"services": 2, "forks": 1, "cpu_millis": 1000, "memory_gbs": 2, "storage_gbs": 0.0}


def test_a_gigabyte_on_disk_is_a_thousand_megabytes_as_everywhere_else(world: World) -> None:
    shop = world.ready(**SMALL)
    with world.store.write() as tx:
        metrics.put_usage(tx, {shop["service_id"]: Usage(storage_mb=10_000)}, world.clock())
    path = f"{world.services_path.rpartition('/')[0]}/limits"
    assert world.get(path).json()["used"]["storage_gbs"] == 10.0
