"""Streams of events: what they begin with, how they end, and how many may be open."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from ramet.api.routes.events import _messages
from ramet.control.projects import Projects
from ramet.control.slots import Slots, stream_of
from ramet.endpoints import BASE_PATH
from ramet.events import stream
from ramet.events.stream import EventFeed
from ramet.model.events import Event, EventFilter, EventType
from ramet.store import events
from tests.api.world import World


def _path(world: World, part: str = "events") -> str:
    return f"{BASE_PATH}/projects/{world.tenant.project.id}/{part}"


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
