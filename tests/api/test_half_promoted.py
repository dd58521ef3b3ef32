"""A service whose promotion was given up half done: only another promotion starts or opens it."""

from typing import Any

import pytest

from ramet.backends.interface.values import Server
from ramet.control.addresses import Move, request_moves
from ramet.control.duties.addresses import move_services
from ramet.control.duties.health import Health
from ramet.control.services import get_service
from ramet.errors import Failed
from ramet.followers.observation import Observing
from ramet.model.source_copies import PAUSES
from ramet.model.upstream import Following
from ramet.procedures.servers import server_of
from ramet.store import services
from tests.api.test_following import BODY, path_of
from tests.api.world import World


@pytest.fixture
def half_promoted(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A service whose promotion was given up after it had ended recovery."""
    follower = world.post(path_of(world), BODY).json()
    world.work()

    def refuse(server: Server, **_options: bool) -> dict[str, Any]:
        raise Failed("ROLES_NOT_TAKEN_OVER", "The roles cannot be taken over")

    with monkeypatch.context() as patched:
        patched.setattr(world.backend.followers, "take_over", refuse)
        world.post(world.path(follower["service_id"], "promote"), {})
        world.work()
    return world.look(follower)


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("stop", None),
        ("start", None),
        ("resize", {"cpu_millis": "500", "memory_gbs": "2"}),
        ("settings", {"settings": {"work_mem": "64MB"}, "restart": True}),
        ("forkService", {"fork_strategy": "NOW"}),
        ("forkService", {"fork_strategy": "PITR", "target_time": "2026-01-01T00:00:00Z"}),
    ],
)
def test_a_half_promoted_service_is_neither_started_nor_opened_by_a_client(
    world: World, half_promoted: dict[str, Any], verb: str, body: object
) -> None:
    answer = world.post(world.path(half_promoted["service_id"], verb), body)
    assert (answer.status_code, answer.json()["code"]) == (400, "HALF_PROMOTED"), answer.text
    assert "Promote it again" in answer.json()["details"]


def test_a_half_promoted_service_is_forked_from_its_snapshots_and_deleted(
    world: World, half_promoted: dict[str, Any]
) -> None:
    fork = world.fork(half_promoted, fork_strategy="LAST_SNAPSHOT")
    world.work()
    assert world.look(fork)["status"] == "READY"
    assert world.delete(world.path(half_promoted["service_id"])).status_code == 202


def test_a_half_promoted_service_is_left_alone_until_it_is_promoted_again(
    world: World, half_promoted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    health, observing, follower = Health(world.plane), Observing(world.plane), half_promoted
    service = get_service(world.plane, world.tenant.project.id, follower["service_id"])
    request_moves(world.store, [Move(service, "db.example.com")])
    world.backend.followers.needs_copy, world.backend.followers.problem = True, "The source has removed WAL."
    for _ in range(2):
        found = world.look(follower)
        assert found["status"] == "UNSTABLE"
        assert "Its promotion is not complete" in found["metadata"]["status_reason"]
        for _ in range(2):
            health.inspect()
            observing.observe_standbys()
            move_services(world.plane)
            world.advance(PAUSES[0])
        world.backend.servers.stop(server_of(service))
        health.inspect()
        world.work()
    started: list[bool] = []
    start = world.backend.servers.start

    def noted(server: Server, *, clients: bool = False, first: bool = False) -> None:
        started.append(clients)
        start(server, clients=clients, first=first)

    monkeypatch.setattr(world.backend.servers, "start", noted)
    world.backend.followers.problem = None
    world.post(world.path(follower["service_id"], "promote"), {})
    world.work()
    assert True not in started
    assert started
    assert (world.look(follower)["status"], world.look(follower)["metadata"].get("following")) == ("READY", None)


@pytest.mark.parametrize("change", ["half_promoted", "paused"])
def test_a_standby_that_changes_while_it_is_observed_is_not_copied_again(
    world: World, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    follower = world.post(path_of(world), BODY).json()
    world.work()
    world.backend.followers.needs_copy, world.backend.followers.problem = True, "The source has removed WAL."
    Observing(world.plane).observe_standbys()
    world.advance(PAUSES[0])
    observe = world.backend.followers.observe

    def observed(server: Server) -> Following | None:
        with world.store.write() as tx:
            services.update_service(tx, server.service_id, **{change: True})
        return observe(server)

    monkeypatch.setattr(world.backend.followers, "observe", observed)
    Observing(world.plane).observe_standbys()
    assert get_service(world.plane, world.tenant.project.id, follower["service_id"]).activity is None
