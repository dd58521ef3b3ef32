"""Reading events: pages, and the stream that continues where a client has stopped."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ramet.control.plane import Plane
from ramet.errors import Invalid
from ramet.model.cursor import PAGE, Page, check_limit, decode_cursor, encode_cursor, page_of, sequence_number
from ramet.model.events import Event, EventFilter, EventType
from ramet.store import events
from ramet.store.batches import remove_in_batches
from ramet.store.database import Store

_AT_ONCE = 100
_POLL_SECONDS = 0.5
_CHECK_SECONDS = 3.0
_KEEP_ALIVE_SECONDS = 15.0


def filter_of(project_id: str, type_: str | None = None, service_id: str | None = None) -> EventFilter:
    """Return a filter from what clients send. Raises Invalid for a type that is none."""
    if type_ is not None and type_ not in tuple(EventType):
        raise Invalid("INVALID_PARAMETER", f"type must be one of {', '.join(EventType)} (got {type_[:64]!r})")
    return EventFilter(project_id, None if type_ is None else EventType(type_), service_id)


def list_events(plane: Plane, wanted: EventFilter, limit: int = PAGE, cursor: str | None = None) -> Page[Event]:
    """Return events, newest first. Raises Invalid."""
    check_limit(limit)
    before = None if cursor is None else decode_cursor(cursor, sequence_number)
    with plane.store.read(settled=True) as tx:
        found = events.list_events(tx, wanted, limit + 1, before)
    return page_of(found, limit, lambda one: encode_cursor(str(one.sequence)))


def newest_sequence(store: Store) -> int:
    """Return the number of the newest event of all projects; 0 when there is none."""
    with store.read(settled=True) as tx:
        return events.newest(tx)


def newest_of(plane: Plane, project_id: str, types: Sequence[EventType], limit: int) -> list[Event]:
    """Return the newest events of some types, newest first."""
    with plane.store.read() as tx:
        return events.list_of_types(tx, project_id, types, limit)


def count_after(plane: Plane, project_id: str, types: Sequence[EventType], sequence: int, most: int) -> int:
    """Return how many events of some types follow a number; `most` when there are more."""
    with plane.store.read() as tx:
        return events.count_after(tx, project_id, types, sequence, most)


@dataclass
class EventFeed:
    """The newest number of all events; one query serves the streams of a process. It may be used by several threads."""

    store: Store
    clock: Callable[[], float] = time.monotonic
    _newest: int = 0
    _due_at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)
    closed: bool = False

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self.closed = True

    def newest(self) -> int:
        """Return the newest number, at most a short time old."""
        with self._lock:
            if self.clock() >= self._due_at:
                self._newest = newest_sequence(self.store)
                self._due_at = self.clock() + _POLL_SECONDS
            return self._newest

    def begin(self, after: int | None) -> int:
        """Return the number after which a stream begins; without `after`, or with one that no event has, the newest."""
        newest = newest_sequence(self.store)
        return newest if after is None else min(after, newest)

    def after(self, wanted: EventFilter, sequence: int) -> list[Event]:
        """Return some of the events that follow a number, oldest first."""
        with self.store.read(settled=True) as tx:
            return events.events_after(tx, wanted, sequence, _AT_ONCE)


async def follow(
    feed: EventFeed, wanted: EventFilter, after: int | None, is_open: Callable[[], bool]
) -> AsyncGenerator[Event | int, None]:
    """Yield the wanted events that follow a number, or those from now on.

    Before them, unless there are some already, and now and then in between, it yields the number after which a stream
    would go on. It ends with `close`, and within a few seconds once `is_open` is False, whatever happens in any
    project.
    """
    seen = await asyncio.to_thread(feed.begin, after)
    checked_at = quiet_since = float("-inf")
    while not feed.closed:
        newest = await asyncio.to_thread(feed.newest)
        if time.monotonic() - checked_at > _CHECK_SECONDS:
            if not await asyncio.to_thread(is_open):
                return
            checked_at = time.monotonic()
        found = await asyncio.to_thread(feed.after, wanted, seen) if newest > seen else []
        for event in found:
            yield event
            seen, quiet_since = event.sequence, time.monotonic()
        if len(found) < _AT_ONCE:
            seen = max(newest, seen)
        if time.monotonic() - quiet_since > _KEEP_ALIVE_SECONDS:
            quiet_since = time.monotonic()
            yield seen
        if len(found) < _AT_ONCE:
            await asyncio.sleep(_POLL_SECONDS)


def remove_old_events(store: Store, now: datetime, kept: timedelta) -> int:
    """Remove the events that are older than `kept`, with their deliveries; return how many."""
    return remove_in_batches(store, lambda tx, most: events.remove_old(tx, now - kept, most))
