"""Asking the server until what is wanted is so."""

import time
from collections.abc import Callable
from typing import TypeVar

from ramet.client.errors import ApiError, TimedOut
from ramet.errors import Error, Unavailable

_SHORTEST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 1.0
_TOLERATED_OUTAGE_SECONDS = 15.0
_Found = TypeVar("_Found")


def poll(ask: Callable[[], _Found | None], timeout_seconds: float, late: Callable[[], TimedOut]) -> _Found:
    """Ask until the answer is not None, and return it; raise `late` after the time limit. The pauses grow.

    The time that an answer takes is part of a pause: a server may let an answer wait until it is the wanted one.
    A server that does not answer for a short time is asked again: it is being restarted.
    """
    begun = answered = time.monotonic()
    while True:
        asked = time.monotonic()
        try:
            found = ask()
            answered = time.monotonic()
        except Error as error:
            if not _is_passing(error) or time.monotonic() - answered > _TOLERATED_OUTAGE_SECONDS:
                raise
            found = None
        if found is not None:
            return found
        now = time.monotonic()
        if now - begun >= timeout_seconds:
            raise late()
        pause = min((now - begun) / 10, _LONGEST_PAUSE_SECONDS, timeout_seconds)
        time.sleep(max(pause - (now - asked), _SHORTEST_PAUSE_SECONDS))


def _is_passing(error: Error) -> bool:
    """Tell whether the server may answer again soon: it is being restarted, or its store is busy."""
    return isinstance(error, Unavailable) or (isinstance(error, ApiError) and error.status in (500, 502, 503, 504))
