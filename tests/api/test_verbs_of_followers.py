"""What each verb does with a service that follows a database elsewhere: as with others, or a refusal with its remedy.

docs/following.md has the same table for users.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from ramet.api.routes import poolers
from ramet.backends.interface.values import Server
from ramet.control.duties.drills import submit_due_drill
from ramet.control.services import get_service
from ramet.followers.observation import Observing
from tests.api.world import World

_FOLLOWS = "FOLLOWS_SOURCE"
_NOW, _OTHER = "the present time", "the id of another service"
_SIZE = {"cpu_millis": "500", "memory_gbs": "2"}
# The verb, its body, and what it is refused with: for a standby, and for a service that subscribes.
_VERBS: tuple[tuple[str, object, str | None, str | None], ...] = (
    ("forkService", {"fork_strategy": "NOW"}, None, None),
    ("forkService", {"fork_strategy": "LAST_SNAPSHOT"}, None, None),
    ("forkService", {"fork_strategy": "PITR", "target_time": _NOW}, None, None),
    ("forkServices", {"fork_strategy": "NOW", "count": 2}, None, None),
    ("snapshots", {"name": "first"}, None, None),
    ("checkpoints", {"name": "first"}, None, None),
    ("stop", None, None, None),
    ("rename", {"name": "other"}, None, None),
    ("resize", _SIZE, None, None),
    ("setEnvironment", {"environment": "DEV"}, None, None),
    ("setProtection", {"protected": True}, None, None),
    ("updateLabels", {"labels": {"team": "shop"}}, None, None),
    ("extendService", {"ttl_seconds": 86400}, None, None),
    ("optimize", None, _FOLLOWS, None),
    ("updateExtensions", {}, _FOLLOWS, None),
    ("updatePassword", {"password": "another one"}, _FOLLOWS, None),
    ("enablePooler", None, _FOLLOWS, None),
    ("replicaSets", {"name": "reports", "nodes": 1, **_SIZE}, _FOLLOWS, None),
    ("setWalLevel", {"wal_level": "logical"}, _FOLLOWS, None),
    ("upgrades", {"to_version": 19, "trial": True}, _FOLLOWS, _FOLLOWS),
    ("upgrades", {"to_version": 19}, _FOLLOWS, _FOLLOWS),
    ("restores", {"snapshot": "first", "confirm": "shop"}, _FOLLOWS, _FOLLOWS),
    ("restores", {"from_service_id": _OTHER, "confirm": "shop"}, _FOLLOWS, _FOLLOWS),
    ("rewind", {"name": "first", "confirm": "shop"}, _FOLLOWS, _FOLLOWS),
    ("promote", {}, None, None),
)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer before a pooler is there: nothing makes one before the test works."""
    monkeypatch.setattr(poolers, "WAIT_SECONDS", 0.0)


@pytest.fixture(params=["PHYSICAL", "LOGICAL"])
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def follower(world: World, method: str) -> Iterator[dict[str, Any]]:
    """A READY service that follows a source, with a snapshot of that name."""
    world.backend.followers.rows[:] = world.backend.sources.rows[:] = ["one", "two"]
    body = {
        "name": "shop",
        "source_url": "postgresql://replicator@db.example/shop",
        "source_password": "source",
        "environment_tag": "PROD",
        "method": method,
    }
    accepted = world.post(world.services_path.removesuffix("services") + "followers", body)
    assert accepted.status_code == 202, accepted.text
    world.work()
    assert world.post(world.path(accepted.json()["service_id"], "snapshots"), {"name": "first"}).status_code == 202
    world.work()
    yield dict(accepted.json())
    assert [one["status"] for one in world.listed() if one["status"] not in ("READY", "PAUSED")] == []


def observe(world: World) -> None:
    """Observe services that follow, by whatever method."""
    duty = Observing(world.plane)
    duty.observe_standbys()
    duty.observe_subscriptions()


@pytest.mark.parametrize(
    ("verb", "body", "standby", "subscriber"), _VERBS, ids=[f"{n} {one[0]}" for n, one in enumerate(_VERBS)]
)
@pytest.mark.slow
def test_a_verb_does_what_it_does_with_others_or_is_refused_with_a_remedy(
    world: World,
    follower: dict[str, Any],
    method: str,
    verb: str,
    body: object,
    standby: str | None,
    subscriber: str | None,
) -> None:
    if isinstance(body, dict):
        meant = {_NOW: world.plane.clock().isoformat(), _OTHER: world.ready()["service_id"]}
        body = {name: meant.get(str(value), value) for name, value in body.items()}
    refused = standby if method == "PHYSICAL" else subscriber
    answer = world.post(world.path(follower["service_id"], verb), body)
    if refused is None:
        assert answer.is_success, answer.text
        world.work()
        is_independent = world.look(follower)["metadata"].get("following") is None
        assert is_independent == (verb == "promote")
    else:
        assert (answer.status_code, answer.json()["code"]) == (400, refused), answer.text
        assert "promote" in answer.json()["details"]
        world.work()


@pytest.mark.slow
def test_statements_of_a_follower_are_shown(world: World, follower: dict[str, Any]) -> None:
    answer = world.get(world.path(follower["service_id"], "topStatements"))
    assert answer.status_code == 200, answer.text


@pytest.mark.slow
def test_forks_of_forks_are_independent_of_the_source(world: World, follower: dict[str, Any]) -> None:
    fork = world.fork(follower)
    world.work()
    again = world.fork(fork)
    world.work()
    world.backend.followers.rows.append("three")
    world.backend.sources.rows.append("three")
    observe(world)
    for one in (fork, again):
        assert world.backend.values(one["service_id"]) == ["one", "two"]
        assert world.look(one)["metadata"].get("following") is None
        for verb, body in (("updatePassword", {"password": "another one"}), ("optimize", None), ("enablePooler", None)):
            assert world.post(world.path(one["service_id"], verb), body).is_success, verb
            world.work()
    answer = world.post(world.path(fork["service_id"], "reset"), {})
    assert (answer.status_code, answer.json()["code"]) == (400, _FOLLOWS)
    assert "Fork it" in answer.json()["details"]
    assert world.post(world.path(again["service_id"], "reset"), {}).status_code == 202
    world.work()


def test_a_promoted_service_with_a_read_replica_keeps_it(world: World, follower: dict[str, Any], method: str) -> None:
    if method == "PHYSICAL":
        return  # a standby has none
    path = world.path(follower["service_id"])
    assert world.post(f"{path}/replicaSets", {"name": "reports", "nodes": 1, **_SIZE}).status_code == 202
    world.work()
    assert world.post(f"{path}/promote", {}).status_code == 202
    world.work()
    (found,) = world.get(f"{path}/replicaSets").json()
    assert found["status"] == "active"
    assert world.backend.subscriptions.published == set()


@pytest.mark.parametrize("away", [False, True])
def test_drills_restore_what_was_received(
    world: World, follower: dict[str, Any], method: str, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    started: list[Server] = []
    start = world.backend.servers.start

    def noted(server: Server, **options: Any) -> None:
        started.append(server)
        start(server, **options)

    monkeypatch.setattr(world.backend.servers, "start", noted)
    until = world.plane.clock()
    if away:
        world.backend.followers.problem, world.backend.followers.complete_until = "It is away.", until
        observe(world)
    submit_due_drill(world.plane, timedelta(0))
    world.work()
    found = get_service(world.plane, world.tenant.project.id, follower["service_id"])
    assert found.drill_failure is None
    assert found.last_verified_at is not None
    assert (found.last_verified_at <= until) == (away and method == "PHYSICAL")
    assert [one.upstream for one in started] == [None]


def test_the_archive_off_the_host_begins_with_the_promotion_of_a_standby(
    world: World, follower: dict[str, Any], method: str
) -> None:
    world.backend.archive.location = "memory://"
    path = world.path(follower["service_id"], "archive")
    assert world.get(path).json()["enabled"] == (method == "LOGICAL")
    assert world.post(world.path(follower["service_id"], "promote"), {}).status_code == 202
    world.work()
    assert world.get(path).json()["enabled"] is True
