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


@dataclass(frozen=True)
class Duty:
    """Something to do every `seconds`; `at_start` also before the process serves, so not what waits for other hosts."""

    name: str
    seconds: float
    perform: Callable[[], None]
    at_start: bool = True


class Schedule:
    """Performs the duties that are due, each in its own thread, so that a slow one does not delay the others."""

    def __init__(self, store: Store, planned: Sequence[Duty]) -> None:
        self._store = store
        self._duties = planned
        self._performed: set[str] = set()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(duty,), name=f"duty-{duty.name}", daemon=True) for duty in planned
        ]

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
        """Perform a duty if it is due, and return how long it is until it is due again.

        One that this process performed the last time is expected to be due: others found that it was not.
        """
        if not duties.take(self._store, duty.name, duty.seconds, is_expected=duty.name in self._performed):
            self._performed.discard(duty.name)
            return self._seconds_until_due(duty)
        self._performed.add(duty.name)
        due_again_at = time.monotonic() + duty.seconds
        try:
            with acting.acting(Act(Actor("ramet", f"duty {duty.name}"), "duty")):
                duty.perform()
        except Exception:  # noqa: BLE001 - the duty must be repeated after a failure
            _log.exception("duty %s failed; it is repeated in %g s", duty.name, duty.seconds)
        return max(0.0, due_again_at - time.monotonic())

    def _seconds_until_due(self, duty: Duty) -> float:
        with self._store.read() as tx:
            return min(duty.seconds, max(0.0, duties.seconds_until_due(tx, duty.name, duty.seconds)))
