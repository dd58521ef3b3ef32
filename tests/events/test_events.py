"""What becomes an event, and how events are read."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ramet.acting import Act, Actor, acting
from ramet.api.routes.events import _messages
from ramet.control.duties.life_spans import LifeSpans
from ramet.control.projects import Projects
from ramet.control.slots import Slots, stream_of
from ramet.endpoints import BASE_PATH
from ramet.errors import Failed
from ramet.events import stream
from ramet.events.stream import EventFeed, remove_old_events
from ramet.model.events import Event, EventFilter, EventType
from ramet.store import events, services
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


def _streamed(
    world: World, count: int, after: int | None, more: Sequence[str] = (), wanted: EventFilter | None = None
) -> list[tuple[Any, Any]]:
    """Return id and type of the next events of a stream; services named `more` become ready once it has begun."""
    feed = EventFeed(world.store, clock=iter(range(10**9)).__next__)

    async def read() -> list[tuple[Any, Any]]:
        found: list[tuple[Any, Any]] = []
        async for message in _messages(feed, lambda: True, wanted or EventFilter(world.tenant.project.id), after):
            if message.event is not None:
                found.append((int(message.id or 0), message.event))
            elif more and not found:
                for name in more:
                    await asyncio.to_thread(world.ready, name=name)
            if len(found) == count:
                break
        return found

    return asyncio.run(asyncio.wait_for(read(), 60))


def test_a_stream_has_what_happens_from_now_on_and_continues_after_an_id(world: World) -> None:
    world.ready()
    assert _streamed(world, 1, None, ["second"]) == [(2, "service.ready")]
    assert _streamed(world, 1, 1) == [(2, "service.ready")]
    assert _streamed(world, 2, 0) == [(1, "service.ready"), (2, "service.ready")]


def test_a_stream_says_first_where_it_begins_so_that_nothing_is_missed_after_it(world: World) -> None:
    world.ready()

    async def first(after: int | None) -> tuple[int | str | None, str | int | bytes | None]:
        messages = _messages(EventFeed(world.store), lambda: True, EventFilter(world.tenant.project.id), after)
        message = await anext(messages)
        return message.id, message.data

    assert asyncio.run(asyncio.wait_for(first(None), 60)) == (1, None)
    assert asyncio.run(asyncio.wait_for(first(1), 60)) == (1, None)


def test_a_stream_after_an_id_that_no_event_has_yet_has_what_happens_from_now_on(world: World) -> None:
    world.ready()
    assert _streamed(world, 1, 1000, ["second"]) == [(2, "service.ready")]


def test_a_stream_has_only_what_was_asked_for(world: World) -> None:
    world.ready()
    second = world.ready()
    world.delete(world.path(second["service_id"]))
    world.work()
    asked = partial(stream.filter_of, world.tenant.project.id)
    assert _streamed(world, 1, 0, wanted=asked("service.deleted")) == [(3, "service.deleted")]
    of_second = [(2, "service.ready"), (3, "service.deleted")]
    assert _streamed(world, 2, 0, wanted=asked(None, second["service_id"])) == of_second
    answer = world.client.get(
        _path(world) + "?type=nonsense", auth=world.tenant.credentials, headers={"Accept": "text/event-stream"}
    )
    assert answer.json()["code"] == "INVALID_PARAMETER"


def test_a_stream_with_a_filter_reads_no_event_twice(world: World) -> None:
    begun_after = []

    class RecordingFeed(EventFeed):
        def after(self, wanted: EventFilter, sequence: int) -> list[Event]:
            begun_after.append(sequence)
            return super().after(wanted, sequence)

    async def read() -> None:
        feed = RecordingFeed(world.store, clock=iter(range(10**9)).__next__)
        wanted = stream.filter_of(world.tenant.project.id, "webhook.test")
        async for message in _messages(feed, lambda: True, wanted, 0):
            if message.event is not None:
                break
            with world.store.write() as tx:
                events.append(tx, world.clock(), wanted.project_id, EventType.WEBHOOK_TEST, None, {})

    world.ready()
    asyncio.run(asyncio.wait_for(read(), 60))
    assert begun_after == [0, 1]


def test_a_stream_ends_with_the_server(world: World) -> None:
    feed = EventFeed(world.store)
    feed.close()

    async def read() -> list[object]:
        return [message async for message in _messages(feed, lambda: True, EventFilter(world.tenant.project.id), None)]

    assert asyncio.run(asyncio.wait_for(read(), 60)) == []


class BusyFeed(EventFeed):
    """A feed of which each look finds something new, as where other projects have events all the time."""

    def newest(self) -> int:
        with self.store.write() as tx:
            events.append(tx, datetime.now(UTC), "another", EventType.WEBHOOK_TEST, None, {})
        return super().newest()


def _revoke(world: World) -> None:
    world.projects.revoke_key(world.tenant.key.public_key, world.clock())


def _rotate(world: World) -> None:
    world.projects.rotate_key(world.tenant.project.id, world.tenant.key.public_key, 0, world.clock())


def _expire(world: World) -> None:
    ends_at = world.clock() + timedelta(hours=1)
    world.projects.change_key(world.tenant.project.id, world.tenant.key.public_key, world.clock(), expires_at=ends_at)
    world.advance(timedelta(hours=2))


@pytest.mark.parametrize("end", [_revoke, _rotate, _expire])
def test_a_stream_ends_with_its_key_or_its_secret_before_another_event_however_much_others_do(
    world: World, monkeypatch: pytest.MonkeyPatch, end: Callable[[World], None]
) -> None:
    monkeypatch.setattr(stream, "_CHECK_SECONDS", -1.0)
    feed = BusyFeed(world.store, clock=iter(range(10**9)).__next__)
    is_open = partial(world.projects.is_opened_by, world.tenant.key.public_key, world.tenant.secret)

    async def read() -> list[str | None]:
        found = []
        async for message in _messages(feed, is_open, EventFilter(world.tenant.project.id), 0):
            found.append(message.event or message.comment)
            if len(found) == 1:
                await asyncio.to_thread(world.ready, name="second")
                end(world)
        return found

    world.ready()
    assert asyncio.run(asyncio.wait_for(read(), 60)) == ["service.ready"]


def test_a_stream_is_kept_alive_however_much_others_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_KEEP_ALIVE_SECONDS", -1.0)

    async def read() -> list[str | None]:
        found = []
        feed = BusyFeed(world.store, clock=iter(range(10**9)).__next__)
        async for message in _messages(feed, lambda: True, EventFilter(world.tenant.project.id), None):
            found.append(message.comment)
            if len(found) == 2:
                break
        return found

    assert asyncio.run(asyncio.wait_for(read(), 60)) == ["keep-alive"] * 2


def test_a_client_that_accepts_event_streams_gets_one_while_its_key_and_secret_are_valid(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "x"}
    answer = world.client.get(_path(world), auth=world.tenant.credentials, headers=headers)
    assert answer.json()["code"] == "INVALID_LAST_EVENT_ID"
    asked = []
    monkeypatch.setattr(Projects, "is_opened_by", lambda _, key, secret: asked.append((key, secret.reveal())))
    headers = {"Accept": "text/event-stream"}
    answer = world.client.get(_path(world), auth=world.tenant.credentials, headers=headers)
    assert (answer.status_code, answer.text, asked) == (200, "", [world.tenant.credentials])


def test_a_project_opens_only_as_many_streams_as_it_leaves_connections_to_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, own, other = world.plane.held, world.tenant, world.new_tenant("other")
    monkeypatch.setattr(Projects, "is_opened_by", lambda *_: False)  # a stream ends where it begins
    opened = sum(1 for _ in iter(partial(held.acquire, own.project.id), False))
    assert opened == held.most // 2
    headers = {"Accept": "text/event-stream"}
    refused = world.client.get(_path(world), auth=own.credentials, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (503, "TOO_MANY_STREAMS")
    assert refused.headers["Retry-After"]
    assert world.get(_path(world)).status_code == 200
    theirs = _path(world).replace(own.project.id, other.project.id)
    assert world.client.get(theirs, auth=other.credentials, headers=headers).status_code == 200
    for _ in range(opened):
        held.release(own.project.id)
    assert world.client.get(_path(world), auth=own.credentials, headers=headers).status_code == 200
    assert not held._taken


def test_a_stream_holds_a_connection_from_its_first_message_until_it_ends(world: World) -> None:
    held = Slots(2)

    async def read() -> None:
        feed, wanted = EventFeed(world.store), stream.filter_of("one")
        streams = [stream_of(held, "one", stream.follow(feed, wanted, None, lambda: True)) for _ in range(2)]
        assert held.has_room("one")
        assert await anext(streams[0]) == 0
        assert not held.has_room("one")
        assert held.has_room("other")
        assert [event async for event in streams[1]] == []
        await streams[0].aclose()
        assert held.has_room("one")

    asyncio.run(asyncio.wait_for(read(), 60))


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
