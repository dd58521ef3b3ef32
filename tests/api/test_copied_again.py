"""A standby while its source is copied again: it serves all the time, and what only it has is kept."""

from datetime import timedelta
from typing import Any

import pytest

from ramet.backends.interface.values import Progress, Readiness, Server
from ramet.errors import Failed, Unavailable
from ramet.followers.observation import Observing
from ramet.model.source_copies import PAUSES
from ramet.model.timestamps import rfc3339
from ramet.model.upstream import Following
from ramet.operations.procedure import NoState, Wait, Work
from ramet.procedures.copy_again import CopyAgain
from ramet.procedures.servers import Tools
from tests.api.test_following import BODY, path_of
from tests.api.world import World


@pytest.fixture
def diverged(world: World) -> dict[str, Any]:
    """A service whose source has lost its last row, and is about to be copied again."""
    followers, duty = world.backend.followers, Observing(world.plane)
    followers.rows[:] = ["one", "two"]
    service: dict[str, Any] = world.post(path_of(world), BODY).json()
    world.work()
    followers.rows.append("last")
    duty.observe_standbys()
    followers.needs_copy, followers.has_diverged, followers.problem = True, True, "The source has lost WAL."
    duty.observe_standbys()
    world.advance(PAUSES[0])
    duty.observe_standbys()
    followers.rows[:] = ["other"]
    return service


def kept_rows(world: World, service: dict[str, Any]) -> list[list[str]]:
    """Return the rows of the snapshots that stay of a service's old state."""
    known = world.get(world.path(service["service_id"], "snapshots")).json()
    taken = world.backend.volumes[service["service_id"]].snapshots
    return [[row.value for row in taken[one["id"]]] for one in known if one["kind"] == "MANUAL"]


@pytest.mark.parametrize("body", [{"drain": True}, {"wait_for_lsn": "0/1"}])
def test_a_standby_that_lacks_what_its_source_has_is_promoted_only_as_it_is(
    world: World, diverged: dict[str, Any], body: dict[str, Any]
) -> None:
    """The LSN of a source that was set back is one that the standby has passed elsewhere."""
    path = world.path(diverged["service_id"], "promote")
    refused = world.post(path, body)
    assert (refused.status_code, refused.json()["code"]) == (400, "COPY_NEEDED")
    assert world.post(path, {}).status_code == 202
    world.work()
    assert world.backend.values(diverged["service_id"]) == ["one", "two", "last"]


def test_a_standby_that_goes_down_while_its_source_is_copied_again_is_started_and_keeps_what_only_it_has(
    world: World, diverged: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    volume, copy = world.backend.volumes[diverged["service_id"]], world.backend.followers.copy_again
    seen = list[bool]()

    def copied(server: Server, timeout_seconds: float) -> Progress:
        seen.append(volume.running and volume.is_open)
        return copy(server, timeout_seconds)

    monkeypatch.setattr(world.backend.followers, "copy_again", copied)
    volume.running = volume.is_open = False
    world.work()
    assert set(seen) == {True}
    assert (world.look(diverged)["status"], world.backend.values(diverged["service_id"])) == ("READY", ["other"])
    assert kept_rows(world, diverged) == [["one", "two", "last"]]


def test_a_standby_that_goes_down_as_its_new_copy_is_complete_keeps_what_only_it_has(
    world: World, diverged: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    volume, copy = world.backend.volumes[diverged["service_id"]], world.backend.followers.copy_again

    def copied(server: Server, timeout_seconds: float) -> Progress:
        found = copy(server, timeout_seconds)
        volume.running = volume.running and found.facts is None
        return found

    monkeypatch.setattr(world.backend.followers, "copy_again", copied)
    world.work()
    assert kept_rows(world, diverged) == [["one", "two", "last"]]


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (Unavailable("SERVER_KILLED", "it was killed"), []),
        (Failed("SERVER_DIED", "its files are damaged"), [["one", "two"]]),
    ],
)
def test_only_a_standby_that_cannot_be_started_is_replaced_without_its_last_commits(
    world: World, diverged: dict[str, Any], monkeypatch: pytest.MonkeyPatch, error: Exception, kept: list[list[str]]
) -> None:
    followers, await_ready = world.backend.followers, world.backend.servers.await_ready

    def awaited(server: Server, timeout_seconds: float) -> Readiness:
        if followers.copied:
            raise error
        return await_ready(server, timeout_seconds)

    monkeypatch.setattr(world.backend.servers, "await_ready", awaited)
    world.work()
    assert world.look(diverged)["status"] == "READY"
    assert world.backend.values(diverged["service_id"]) == (["other"] if kept else ["one", "two", "last"])
    assert kept_rows(world, diverged) == kept


def test_a_standby_that_cannot_be_started_delays_the_copy_of_its_source_by_nothing(
    world: World, diverged: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, start, volume = list[str](), world.backend.servers.start, world.backend.volumes[diverged["service_id"]]

    def started(server: Server, **options: bool) -> None:
        starts.append(server.service_id)
        if len(starts) == 1:
            raise Unavailable("SERVER_ENDING", "An earlier server is still shutting down")
        start(server, **options)

    monkeypatch.setattr(world.backend.servers, "start", started)
    volume.running = False
    world.work()
    assert world.backend.values(diverged["service_id"]) == ["other"]
    assert kept_rows(world, diverged) == [["one", "two", "last"]]


def test_a_standby_that_stays_down_is_no_progress_of_the_copy_of_its_source(
    world: World, diverged: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = list[str]()

    def start(server: Server, **_options: bool) -> None:
        starts.append(server.service_id)
        raise Unavailable("SERVER_ENDING", "An earlier server is still shutting down")

    monkeypatch.setattr(world.backend.servers, "start", start)
    monkeypatch.setattr(world.backend.followers, "copy_again", lambda *_given: Progress(None, "begun"))
    world.backend.volumes[diverged["service_id"]].running = False
    steps, now = CopyAgain(Tools(world.store, world.backend, world.plane.clock)), world.plane.clock()
    for _ in range(3):
        work = Work("operation", diverged["service_id"], "fetch", NoState(), 1, now, now)
        assert steps.fetch(work) == Wait(0.1, "begun")
        world.advance(timedelta(minutes=1))
    assert set(starts) == {diverged["service_id"]}


def test_the_lag_is_current_while_the_source_is_copied_again(world: World, diverged: dict[str, Any]) -> None:
    followers, duty = world.backend.followers, Observing(world.plane)
    before = world.look(diverged)["metadata"]["following"]
    followers.problem, followers.complete_until = None, world.plane.clock()
    followers.rows[:] = ["one", "two", "last", "more"]
    world.advance(timedelta(seconds=6))
    duty.observe_standbys()
    after = world.look(diverged)["metadata"]["following"]
    assert after["observed_at"] > before["observed_at"]
    assert (after["complete_until"], after["lag_bytes"]) == (rfc3339(followers.complete_until), 0)
    assert after["problem"] == before["problem"]
    assert "being copied again, attempt 1 of 5" in after["problem"]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_copy_of_a_source_is_opened_only_when_its_superusers_were_looked_for(
    world: World, diverged: dict[str, Any], monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    calls, observe, opened = list[str](), world.backend.followers.observe, world.backend.servers.open
    if is_new:
        world.work()
        diverged = world.post(path_of(world), BODY | {"name": "new"}).json()

    def observing(server: Server) -> Following | None:
        calls.append("observe")
        if len(calls) > 1:
            return observe(server)
        world.backend.volumes[server.service_id].running = False
        return None

    def opening(server: Server) -> None:
        calls.append("open")
        opened(server)

    monkeypatch.setattr(world.backend.followers, "observe", observing)
    monkeypatch.setattr(world.backend.servers, "open", opening)
    world.work()
    assert (world.look(diverged)["status"], calls) == ("READY", ["observe", "observe", "open"])
