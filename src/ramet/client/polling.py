"""Asking the server until what is wanted is so."""

import time
from collections.abc import Callable
from typing import TypeVar

from ramet.client.errors import TimedOut

_SHORTEST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 1.0
_Found = TypeVar("_Found")


def poll(ask: Callable[[], _Found | None], timeout_seconds: float, late: Callable[[], TimedOut]) -> _Found:
    """Ask until the answer is not None, and return it; raise `late` after the time limit. The pauses grow."""
    begun = time.monotonic()
    while True:
        found = ask()
        if found is not None:
            return found
        elapsed = time.monotonic() - begun
        if elapsed >= timeout_seconds:
            raise late()
        time.sleep(min(max(elapsed / 10, _SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS, timeout_seconds))
