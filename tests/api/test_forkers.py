"""What a forker may do, and a list of attacks on what it may not: none of them succeeds."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from ramet.endpoints import BASE_PATH
from ramet.model.timestamps import rfc3339
from tests.api.world import JsonObject, World

HOUR = 3600


def _try_fork(world: World, parent: JsonObject, **fields: Any) -> httpx.Response:
    return world.post(world.path(parent["service_id"], "forkService"), {"fork_strategy": "NOW", **fields})


def test_a_forker_forks_its_parent_and_sees_and_deletes_the_fork_alone(world: World) -> None:
    shop, other = world.ready(), world.ready(name="other")
    forker = world.forker(shop, max_fork_ttl_seconds=HOUR)
    fork = forker.fork(shop)
    world.work()
    fork = forker.look(fork)
    assert fork["status"] == "READY"
    assert fork["metadata"]["environment"] == "DEV"
    assert [one["service_id"] for one in forker.listed()] == [fork["service_id"]]
    listed = forker.get(f"{BASE_PATH}/projects/{world.tenant.project.id}/operations").json()["operations"]
    assert {one["service_id"] for one in listed} == {fork["service_id"]}
    for path in ("logs", "operations", "forkReport", "restoreWindow", "metrics/available-series", "snapshots"):
        assert forker.get(forker.path(fork["service_id"], path)).status_code == 200, path
        for hidden in (shop, other):
            assert forker.get(forker.path(hidden["service_id"], path)).status_code == 404, path
    assert forker.delete(forker.path(fork["service_id"])).status_code == 202
    world.work()
    assert forker.listed() == []
    assert len(world.listed()) == 2


def test_a_forker_rewinds_its_fork_to_its_own_checkpoint(world: World) -> None:
    shop = world.ready()
    forker = world.forker(shop)
    fork = forker.fork(shop)
    world.work()
    taken = forker.post(forker.path(fork["service_id"], "checkpoints"), {"name": "start"})
    assert taken.status_code == 202, taken.text
    world.work()
    rewound = forker.post(forker.path(fork["service_id"], "rewind"), {"name": "start"})
    assert rewound.status_code == 202, rewound.text
    world.work()
    path = forker.path(fork["service_id"], f"restores/{rewound.json()['restore_id']}")
    assert forker.get(path).json()["status"] == "SUCCEEDED"
    assert [one["service_id"] for one in forker.listed()] == [fork["service_id"]]
    assert forker.delete(forker.path(fork["service_id"], f"snapshots/{taken.json()['id']}")).status_code == 202


def test_a_fork_of_a_forker_expires_in_time(world: World) -> None:
    shop = world.ready()
    forker = world.forker(shop, max_fork_ttl_seconds=HOUR)
    begun = world.clock()
    for fields in ({}, {"ttl_seconds": 600}, {"idle_ttl_seconds": 600}, {"ttl_seconds": HOUR}):
        fork = forker.fork(shop, **fields)
        assert fork["metadata"]["expires_at"] <= rfc3339(begun + timedelta(seconds=HOUR + 60))
    refused = _try_fork(forker, shop, ttl_seconds=HOUR + 1)
    assert (refused.status_code, refused.json()["code"]) == (400, "LIFE_SPAN_TOO_LONG")
    assert "max_fork_ttl_seconds 3600" in refused.json()["message"]


def test_a_fork_of_a_forkers_fork_ends_with_that_one(world: World) -> None:
    shop = world.ready()
    forker = world.forker(shop, max_fork_ttl_seconds=HOUR)
    fork = forker.fork(shop, ttl_seconds=600)
    world.work()
    world.advance(timedelta(seconds=300))
    second = forker.fork(fork)
    assert second["metadata"]["expires_at"] == fork["metadata"]["expires_at"]
    assert _try_fork(forker, fork, ttl_seconds=900).json()["code"] == "LIFE_SPAN_TOO_LONG"
    world.work()
    assert forker.delete(forker.path(fork["service_id"])).status_code == 202
    world.work()
    extended = forker.post(forker.path(second["service_id"], "extendService"), {"ttl_seconds": 900})
    assert extended.json()["code"] == "LIFE_SPAN_TOO_LONG"


def test_a_forker_has_so_many_forks_at_once(world: World) -> None:
    shop = world.ready()
    forker = world.forker(shop, max_forks=2)
    several = forker.post(forker.path(shop["service_id"], "forkServices"), {"fork_strategy": "NOW", "count": 3})
    assert several.json()["code"] == "KEY_LIMIT"
    first, _ = forker.fork(shop), forker.fork(shop)
    assert _try_fork(forker, shop).json()["code"] == "KEY_LIMIT"
    world.work()
    forker.delete(forker.path(first["service_id"]))
    world.work()
    forker.fork(shop)
    world.fork(shop)  # others are not affected


Attack = Callable[[World, JsonObject, JsonObject, JsonObject], httpx.Response]
"""What a forker tries: with its world, its parent, its own fork, and somebody else's service."""


def _fork(**fields: Any) -> Attack:
    return lambda forker, parent, _own, _other: _try_fork(forker, parent, **fields)


def _at_own(verb: str, **body: Any) -> Attack:
    return lambda forker, _parent, own, _other: forker.post(forker.path(own["service_id"], verb), body)


def _at_other(verb: str, **body: Any) -> Attack:
    return lambda forker, _parent, _own, other: forker.post(forker.path(other["service_id"], verb), body)


def _at_parent(verb: str, **body: Any) -> Attack:
    return lambda forker, parent, _own, _other: forker.post(forker.path(parent["service_id"], verb), body)


def _reads(verb: str) -> Attack:
    return lambda forker, _parent, _own, other: forker.get(forker.path(other["service_id"], verb))


def _of_project(part: str, **body: Any) -> Attack:
    def attack(forker: World, _parent: JsonObject, _own: JsonObject, _other: JsonObject) -> httpx.Response:
        path = f"{BASE_PATH}/projects/{forker.tenant.project.id}/{part}"
        return forker.post(path, body) if body else forker.get(path)

    return attack


ATTACKS: dict[str, Attack] = {
    "forks another service": _at_other("forkService", fork_strategy="NOW"),
    "plans a fork of another service": lambda forker, _p, _o, other: forker.post(
        forker.path(other["service_id"], "forkService") + "?dry_run=true", {"fork_strategy": "NOW"}
    ),
    "forks another service several times": _at_other("forkServices", fork_strategy="NOW", count=2),
    "makes a PROD fork": _fork(environment_tag="PROD"),
    "makes a fork that is not neutralized": _fork(quiet=False),
    "makes a fork that does not expire": _fork(protected=True),
    "forks a deleted service": _fork(from_deleted=True),
    "makes a fork that expires in ten years": _fork(expires_at="2035-01-01T00:00:00Z"),
    "makes a fork with a snapshot of another service": lambda forker, parent, _o, other: _try_fork(
        forker, parent, fork_strategy="LAST_SNAPSHOT", snapshot_id=other["snapshot"]
    ),
    "makes more forks than exist": _at_parent("forkServices", fork_strategy="NOW", count=50),
    "extends its fork": _at_own("extendService", ttl_seconds=10 * HOUR),
    "removes the end of its fork": _at_own("extendService", ttl_seconds=None),
    "lets its fork end by idleness alone": _at_own("extendService", ttl_seconds=None, idle_ttl_seconds=600),
    "extends another fork": _at_other("extendService", ttl_seconds=600),
    "protects its fork": _at_own("setProtection", protected=True),
    "makes its fork PROD": _at_own("setEnvironment", environment="PROD"),
    "lets its fork sleep": _at_own("setSleep", sleep_after_seconds=600),
    "resizes its fork": _at_own("resize", cpu_millis="500", memory_gbs="2"),
    "resets its fork": _at_own("reset"),
    "restores another service into its fork": lambda forker, _p, own, other: forker.post(
        forker.path(own["service_id"], "restores"), {"from_service_id": other["service_id"]}
    ),
    "keeps the state before it rewinds its fork": _at_own("rewind", name="x", keep_previous=True),
    "rewinds its parent": _at_parent("rewind", name="x"),
    "makes a checkpoint of its parent": _at_parent("checkpoints", name="x"),
    "takes a snapshot of its parent": _at_parent("snapshots"),
    "adds replicas to its fork": _at_own("replicaSets", name="x", nodes=1, cpu_millis=500, memory_gbs=2),
    "upgrades its fork": _at_own("upgrades", to_version=18),
    "creates a service": _of_project("services", name="x"),
    "imports a database": _of_project("imports", name="x", source_url="postgresql://h/d", source_password="x"),
    "follows a database": _of_project("followers", name="x", source_url="postgresql://h/d", source_password="x"),
    "makes a key": _of_project("keys", name="x", role="ADMIN"),
    "lists keys": _of_project("keys"),
    "reads the limits of the project": _of_project("limits"),
    "sets the password of its parent": _at_parent("updatePassword", password="x"),
    "sets the password of another service": _at_other("updatePassword", password="x"),
    "renames its parent": _at_parent("rename", name="x"),
    "labels its parent": _at_parent("updateLabels", labels={"a": "b"}),
    "stops its parent": _at_parent("stop"),
    "starts another service": _at_other("start"),
    "deletes its parent": lambda forker, parent, _o, _x: forker.delete(forker.path(parent["service_id"])),
    "deletes another fork": lambda forker, _p, _o, other: forker.delete(forker.path(other["service_id"])),
    "sees its parent": lambda forker, parent, _o, _x: forker.get(forker.path(parent["service_id"])),
    "sees another fork": _reads(""),
    "reads another log": _reads("logs"),
    "reads other operations": _reads("operations"),
    "reads another report": _reads("forkReport"),
    "reads another report of an import": _reads("importReport"),
    "reads another restore window": _reads("restoreWindow"),
    "reads another archive": _reads("archive"),
    "reads other snapshots": _reads("snapshots"),
    "reads other replicas": _reads("replicaSets"),
    "reads another list of series": _reads("metrics/available-series"),
    "reads another series": _at_other(
        "metrics/series",
        name="ramet_wal_bytes_total",
        **{"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"},
    ),
    "reads a replica set of another service": lambda forker, _p, _o, other: forker.get(forker.path(other["set"])),
    "deletes a replica set of another service": lambda forker, _p, _o, other: forker.delete(
        forker.path(other["service_id"], f"replicaSets/{other['set']}")
    ),
}


@pytest.fixture(name="field")
def _field(world: World) -> tuple[World, World, JsonObject, JsonObject, JsonObject]:
    """The world, a forker's view of it, its parent, its fork, and a fork of somebody else with a set and a snapshot."""
    shop = world.ready()
    forker, neighbour = world.forker(shop, max_forks=5, max_fork_ttl_seconds=HOUR), world.forker(shop)
    own, other = forker.fork(shop), neighbour.fork(shop)
    world.work()
    taken = world.post(world.path(other["service_id"], "snapshots"), {"name": "before"}).json()
    body = {"name": "x", "nodes": 1, "cpu_millis": 500, "memory_gbs": 2}
    added = world.post(world.path(other["service_id"], "replicaSets"), body)
    assert added.status_code == 202, added.text
    world.work()
    return world, forker, shop, own, {**other, "snapshot": taken["id"], "set": added.json()["id"]}


def test_no_attack_of_a_forker_succeeds(field: tuple[World, World, JsonObject, JsonObject, JsonObject]) -> None:
    world, forker, shop, own, other = field
    before = world.listed()
    succeeded = {}
    for name, attack in ATTACKS.items():
        answer = attack(forker, shop, own, other)
        if answer.status_code not in (400, 403, 404):
            succeeded[name] = (answer.status_code, answer.text)
        elif answer.status_code == 404:  # as a service that does not exist
            assert answer.json()["message"] == "no service with that id exists", name
        elif answer.status_code == 400:
            known = ("KEY_LIMIT", "LIFE_SPAN_TOO_LONG", "SNAPSHOT_NOT_FOUND", "INVALID_SNAPSHOT")
            assert answer.json()["code"] in known, (name, answer.text)
    assert succeeded == {}
    world.work()
    assert world.listed() == before


def test_the_idempotency_key_of_somebody_else_answers_with_nothing_of_theirs(world: World) -> None:
    shop = world.ready()
    forker, neighbour = world.forker(shop), world.forker(shop)
    seen = []
    for one in (world, neighbour, forker, forker):
        path, body = one.path(shop["service_id"], "forkService"), {"fork_strategy": "NOW"}
        answer = one.post(path, body, headers={"Idempotency-Key": "same"})
        assert answer.status_code == 202
        seen.append((answer.json()["service_id"], answer.json()["initial_password"]))
    assert len(set(seen[:3])) == 3
    assert seen[2] == seen[3]


def test_a_forker_whose_parent_is_taken_away_forks_it_no_more(world: World) -> None:
    shop, other = world.ready(), world.ready(name="other")
    forker = world.forker(shop)
    fork = forker.fork(shop)
    world.projects.change_key(
        world.tenant.project.id, forker.tenant.key.public_key, world.clock(), parents=(other["service_id"],)
    )
    assert _try_fork(forker, shop).status_code == 404
    assert _try_fork(forker, other).status_code == 202
    assert forker.look(fork)["service_id"] == fork["service_id"]


def test_forkers_of_one_project_do_not_share_names_of_services(world: World) -> None:
    """A fork with the name of somebody else's is no way to it."""
    shop = world.ready()
    forker, neighbour = world.forker(shop), world.forker(shop)
    theirs = neighbour.fork(shop, name="preview")
    mine = forker.fork(shop, name="preview")
    assert [one["service_id"] for one in forker.listed()] == [mine["service_id"]]
    assert forker.get(forker.path(theirs["service_id"])).status_code == 404


def test_a_limit_of_the_project_names_no_service_of_others(world: World) -> None:
    shop = world.ready()
    forker = world.forker(shop)
    own = forker.fork(shop, name="own fork")
    world.projects.change_limits(world.tenant.project.id, {"max_services": 2})
    refused, shown = _try_fork(forker, shop).json(), _try_fork(world, shop).json()
    assert (refused["code"], shown["code"]) == ("PROJECT_LIMIT", "PROJECT_LIMIT")
    assert refused["message"].endswith(f"(max_services); yours are {own['name']}")
    assert "it has" in shown["message"]
    assert shop["name"] in shown["message"]


def test_the_advice_for_a_time_before_a_fork_names_no_ancestor_that_a_forker_does_not_see(world: World) -> None:
    root = world.ready(name="root")
    world.advance(timedelta(hours=1))
    parent = world.fork(root, name="parent")
    world.work()
    forker, target = world.forker(parent), rfc3339(world.clock() - timedelta(minutes=30))
    for asking, said in ((forker, "Its ancestor at that time is unknown."), (world, "Fork its ancestor 'root'")):
        refused = _try_fork(asking, parent, fork_strategy="PITR", target_time=target).json()
        assert refused["code"] == "OUTSIDE_RESTORE_WINDOW"
        assert said in refused["details"]
