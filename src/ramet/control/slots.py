"""Bounds on what requests hold at a time, so that those of one project leave something to the others.

That is threads of HTTP (api/threads.py), in which they wait for databases, and connections, of which streams and
requests that wait hold one each.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ramet.errors import Unavailable


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
            own, free = self._taken[project_id], self.most - self._taken.total()
            if not free or own >= (free if self.most_of_project is None else self.most_of_project):
                return False
            self._taken[project_id] += 1
            return True

    def release(self, project_id: str) -> None:
        """Give a slot back."""
        with self._lock:
            self._taken[project_id] -= 1
            if not self._taken[project_id]:
                del self._taken[project_id]


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
