"""Asking the server until what is wanted is so."""

import math
import time
from collections.abc import Callable
from typing import TypeVar

from ramet.api import schemas
from ramet.client.errors import ApiError, TimedOut, is_of_proxy
from ramet.errors import Error, Unavailable
from ramet.model.status import OperationStatus

_SHORTEST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 1.0
_TOLERATED_OUTAGE_SECONDS = 15.0
_Found = TypeVar("_Found")
_Begun = TypeVar("_Begun", bound="schemas.moves.Move | schemas.restores.Restore | schemas.upgrades.Upgrade")


def poll(ask: Callable[[], _Found | None], timeout_seconds: float, late: Callable[[], TimedOut]) -> _Found:
    """Ask until the answer is not None, and return it; raise `late` after the time limit. The pauses grow.

    The time that an answer takes is part of a pause: a server may let an answer wait until it is the wanted one.
    A server that does not answer for a short time is asked again: it is being restarted. One failure alone ends
    nothing, however long it took.
    """
    begun, failing_since = time.monotonic(), math.inf
    while True:
        asked = time.monotonic()
        try:
            found = ask()
            failing_since = math.inf
        except Error as error:
            failing_since = min(failing_since, time.monotonic())
            if not _is_passing(error) or time.monotonic() - failing_since > _TOLERATED_OUTAGE_SECONDS:
                raise
            found = None
        if found is not None:
            return found
        now = time.monotonic()
        if now - begun >= timeout_seconds:
            raise late()
        pause = min((now - begun) / 10, _LONGEST_PAUSE_SECONDS, timeout_seconds)
        time.sleep(max(pause - (now - asked), _SHORTEST_PAUSE_SECONDS))


def poll_end(
    ask: Callable[[], _Begun], timeout_seconds: float, seen: Callable[[_Begun], None], late: Callable[[], TimedOut]
) -> _Begun:
    """Ask as `poll` does until what was begun has succeeded or failed, and return it; `seen` gets each answer."""

    def over() -> _Begun | None:
        found = ask()
        seen(found)
        return found if found.status in (OperationStatus.SUCCEEDED, OperationStatus.FAILED) else None

    return poll(over, timeout_seconds, late)


def _is_passing(error: Error) -> bool:
    """Tell whether the server may answer again soon: it is slow or being restarted, or its store is busy."""
    if isinstance(error, ApiError):
        return error.status in (500, 502, 503, 504) or is_of_proxy(error)
    return isinstance(error, Unavailable | TimedOut)
