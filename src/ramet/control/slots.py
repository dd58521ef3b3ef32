"""Bounds on how many requests wait for databases at a time: each of them holds a thread of HTTP (api/threads.py)."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ramet.errors import Unavailable


@dataclass(frozen=True)
class Slots:
    """At most `most` requests at a time, and `most_of_project` of one project. Safe to share between threads."""

    most: int
    most_of_project: int
    _taken: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def acquire(self, project_id: str) -> bool:
        """Take a slot if this project may have one more; tell whether it was taken."""
        with self._lock:
            if self._taken[project_id] >= self.most_of_project or self._taken.total() >= self.most:
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
