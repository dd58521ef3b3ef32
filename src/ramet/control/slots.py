"""Bounds on what requests hold at a time, so that those of one project leave something to the others.

That is threads of HTTP (api/threads.py), in which they wait for databases, and connections, of which streams and
requests that wait hold one each.
"""

import threading
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from ramet.errors import Unavailable

Message = TypeVar("Message")
Messages: TypeAlias = AsyncGenerator[Message, None]


@dataclass(frozen=True)
class Slots:
    """At most `most` requests at a time, and `most_of_project` of one project; None: only as many as it leaves free.

    Safe to share between threads.
    """

    most: int
    most_of_project: int | None = None
    _taken: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def acquire(self, project_id: str) -> bool:
        """Take a slot if this project may have one more; tell whether it was taken."""
        with self._lock:
            if not self._fits(project_id):
                return False
            self._taken[project_id] += 1
            return True

    def has_room(self, project_id: str) -> bool:
        """Tell whether a project may have one more now."""
        with self._lock:
            return self._fits(project_id)

    def taken(self) -> int:
        """Return how many slots are taken."""
        with self._lock:
            return self._taken.total()

    def release(self, project_id: str) -> None:
        """Give a slot back."""
        with self._lock:
            self._taken[project_id] -= 1
            if not self._taken[project_id]:
                del self._taken[project_id]

    def _fits(self, project_id: str) -> bool:
        own, free = self._taken[project_id], self.most - self._taken.total()
        return free > 0 and own < (free if self.most_of_project is None else self.most_of_project)


def stream_of(slots: Slots, project_id: str, messages: Messages[Message]) -> Messages[Message]:
    """Return the messages of a stream, which holds a connection until it ends. Raises Unavailable without room for it.

    The connection is counted from the first message on, since what never begins never ends.
    """
    if not slots.has_room(project_id):
        wrong = "Too many streams and waiting requests of the project are open"
        raise Unavailable("TOO_MANY_STREAMS", wrong, "Close some, or read the pages of events from time to time.")
    return _held(slots, project_id, messages)


async def _held(slots: Slots, project_id: str, messages: Messages[Message]) -> Messages[Message]:
    if not slots.acquire(project_id):
        return  # another stream was faster
    try:
        async with aclosing(messages):
            async for message in messages:
                yield message
    finally:
        slots.release(project_id)


@contextmanager
def examining(slots: Slots, project_id: str) -> Iterator[None]:
    """Let a request examine a source elsewhere. Raises Unavailable while too many do."""
    if not slots.acquire(project_id):
        wrong = (
            f"{slots.most_of_project} sources are being examined for the project, or {slots.most} for all of them,"
            " which is the maximum"
        )
        raise Unavailable("TOO_MANY_EXAMINATIONS", wrong, "Try again when one of them ends, at most a minute from now.")
    try:
        yield
    finally:
        slots.release(project_id)
