"""Periodic duties; each is performed by one process at a time, however many run."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ramet import acting
from ramet.acting import Act, Actor
from ramet.errors import Unavailable
from ramet.store import duties
from ramet.store.database import Store

_log = logging.getLogger(__name__)
_HELD_SECONDS = 5.0


@dataclass(frozen=True)
class Duty:
    """Something to do every `seconds`; `at_start` also before the process serves, so not what waits for other hosts."""

    name: str
    seconds: float
    perform: Callable[[], None]
    at_start: bool = True


class Schedule:
    """Performs the duties that are due, each in its own thread, so that a slow one does not delay the others.

    A process that has taken a duty keeps it for some seconds, in which it performs it without asking the store: an idle
    Ramet writes less. After a crash another process performs it that much later.
    """

    def __init__(self, store: Store, planned: Sequence[Duty]) -> None:
        self._store = store
        self._duties = planned
        self._held_until: dict[str, float] = {}
        self._due_again_at: dict[str, float] = {}
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(duty,), name=f"duty-{duty.name}", daemon=True) for duty in planned
        ]

    def take_over(self) -> None:
        """Make due what an earlier process of this host keeps: the caller knows that none runs.

        PostgreSQL may be the store of other hosts too, whose processes keep theirs.
        """
        if not self._store.is_postgresql:
            with self._store.write() as tx:
                duties.forget(tx, [duty.name for duty in self._duties if duty.seconds < _HELD_SECONDS])

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, drain_seconds: float = 10.0) -> None:
        """Let the duties under way finish, all of them within `drain_seconds`, and end the threads."""
        self._stopping.set()
        deadline = time.monotonic() + drain_seconds
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def perform_due(self) -> None:
        """Perform, in the caller's thread, each duty that is due and that no other process has taken."""
        for duty in self._duties:
            if duty.at_start:
                self._perform_if_due(duty)

    def _run(self, duty: Duty) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            try:
                pause = self._perform_if_due(duty)
            except Unavailable as error:
                _log.warning("duty %s could not be looked up: %s", duty.name, error.__cause__ or error)
                pause = duty.seconds
            except Exception:  # noqa: BLE001 - without its thread the duty would never be repeated
                _log.exception("duty %s could not be looked up; that is tried again in %g s", duty.name, duty.seconds)
                pause = duty.seconds

    def _perform_if_due(self, duty: Duty) -> float:
        """Perform a duty if it is due, and return how long it is until it is due again."""
        now = time.monotonic()
        left = self._due_again_at.get(duty.name, now) - now
        if left > 0:  # it was performed before the start
            return left
        if now >= self._held_until.get(duty.name, now) and not self._take(duty):
            return self._seconds_until_due(duty)
        self._due_again_at[duty.name] = time.monotonic() + duty.seconds
        try:
            with acting.acting(Act(Actor("ramet", f"duty {duty.name}"), "duty")):
                duty.perform()
        except Unavailable as error:
            _log.warning("duty %s is repeated in %g s: %s", duty.name, duty.seconds, error.__cause__ or error)
        except Exception:  # noqa: BLE001 - the duty must be repeated after a failure
            _log.exception("duty %s failed; it is repeated in %g s", duty.name, duty.seconds)
        return max(0.0, self._due_again_at[duty.name] - time.monotonic())

    def _take(self, duty: Duty) -> bool:
        """Take a duty; one that this process has kept is expected to be due: others found that it was not."""
        period, taken_at = _period(duty), time.monotonic()
        if not duties.take(self._store, duty.name, period, is_expected=duty.name in self._held_until):
            self._held_until.pop(duty.name, None)
            return False
        self._held_until[duty.name] = taken_at + period - duty.seconds / 2  # between its last time and the next one
        return True

    def _seconds_until_due(self, duty: Duty) -> float:
        with self._store.read() as tx:
            left = duties.seconds_until_due(tx, duty.name, _period(duty))
        return min(duty.seconds, max(0.0, left))


def _period(duty: Duty) -> float:
    return max(duty.seconds, _HELD_SECONDS)
