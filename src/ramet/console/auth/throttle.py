"""The throttle on failed sign-ins: it slows down guessing and never locks a key out."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

_FREE_FAILURES = 10
_REMEMBERED_SECONDS = 300.0
_REMEMBERED = 10_000
_MAX_WAITING = 4

Attempt = tuple[str, str]
"""Who signs in: the client's address, and the public key that it gives."""


class SignInThrottle:
    """Counts failed sign-ins for each pair of address and key.

    After ten failures within five minutes each further attempt of the pair waits `delay_seconds`, unless four wait
    already: each of them holds a request open. Other keys are not affected: many people may share a proxy's address.
    """

    def __init__(self, delay_seconds: float = 2.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.delay_seconds = delay_seconds
        self._clock = clock
        self._failed: OrderedDict[Attempt, list[float]] = OrderedDict()
        self._waiting: dict[Attempt, int] = {}
        self._lock = threading.Lock()

    def is_throttled(self, attempt: Attempt) -> bool:
        """Tell whether the pair has failed too often recently."""
        with self._lock:
            return len(self._recent(attempt)) >= _FREE_FAILURES

    def record_failure(self, attempt: Attempt) -> None:
        """Count a failed sign-in. Only the newest 10,000 pairs are remembered."""
        with self._lock:
            self._failed[attempt] = [*self._recent(attempt)[-_FREE_FAILURES:], self._clock()]
            self._failed.move_to_end(attempt)
            if len(self._failed) > _REMEMBERED:
                self._failed.popitem(last=False)

    def acquire(self, attempt: Attempt) -> bool:
        """Take one of the pair's places to wait; False where all are taken. Each True needs a `release`."""
        with self._lock:
            taken = self._waiting.get(attempt, 0)
            if taken < _MAX_WAITING:
                self._waiting[attempt] = taken + 1
            return taken < _MAX_WAITING

    def release(self, attempt: Attempt) -> None:
        """Free a place taken by `acquire`."""
        with self._lock:
            self._waiting[attempt] -= 1
            if not self._waiting[attempt]:
                del self._waiting[attempt]

    def _recent(self, attempt: Attempt) -> list[float]:
        since = self._clock() - _REMEMBERED_SECONDS
        return [at for at in self._failed.get(attempt, []) if at > since]
