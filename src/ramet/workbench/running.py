"""The statements that run now in this process: how many there may be, and who may cancel which."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg

from ramet.control.slots import Slots
from ramet.control.spent_forms import sent_twice
from ramet.errors import Exhausted, Invalid, WrongState

_MOST_OF_OWNER = 3


@dataclass
class Running:
    """A statement that runs, or is about to; `commits` says whether it commits when it has succeeded.

    `may_have_committed`: its session has ended before PostgreSQL said what became of it.
    """

    commits: bool = False
    may_have_committed: bool = False
    session: psycopg.Connection | None = None
    is_cancelled: bool = False
    has_succeeded: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    _cancelling: threading.Lock = field(default_factory=threading.Lock)

    def begin_in(self, session: psycopg.Connection) -> None:
        """Say in which session it runs. Raises WrongState if it was cancelled before."""
        self.session = session
        if self.is_cancelled:
            raise WrongState("STATEMENT_CANCELLED", "The statement was cancelled before it began")

    def cancel(self) -> None:
        """Ask the server to cancel it, unless another request is about to cancel it."""
        self.is_cancelled = True
        with self._alone() as is_alone:
            if is_alone and self.session is not None:
                with suppress(psycopg.Error):
                    self.session.cancel_safe(timeout=5)

    def await_end(self, seconds: float) -> bool:
        """Tell whether it has ended. Of the requests that cancel it only one waits for that."""
        with self._alone() as is_alone:
            return self.ended.wait(seconds) if is_alone else self.ended.is_set()

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Yield whether no other request cancels it: these hold threads, and it may catch its cancellation."""
        is_alone = self._cancelling.acquire(blocking=False)
        try:
            yield is_alone
        finally:
            if is_alone:
                self._cancelling.release()


@dataclass(frozen=True)
class Desk:
    """Statements by their owner, the public key of who is signed in, and the key by which forms cancel them."""

    slots: Slots = field(default_factory=lambda: Slots(8, 4), repr=False)
    _running: dict[tuple[str, str], Running] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self, project_id: str, owner: str, key: str, *, commits: bool) -> Iterator[Running]:
        """Let a statement run. Raises Exhausted, and WrongState for a form whose statement is running."""
        name, run = (owner, key), Running(commits=commits)
        with self._lock:
            self._begin(project_id, name)
            self._running[name] = run
        try:
            yield run
            run.has_succeeded = True
        except Exception as error:
            run.may_have_committed = run.commits and run.session is not None and not _says_undone(error)
            raise
        finally:
            run.ended.set()
            with self._lock:
                self._running.pop(name, None)
                self.slots.release(project_id)

    def cancel(self, owner: str, key: str) -> Running | None:
        """Cancel a statement, and return it if it was running."""
        with self._lock:
            run = self._running.get((owner, key))
        if run is not None:
            run.cancel()
        return run

    def _begin(self, project_id: str, name: tuple[str, str]) -> None:
        if name in self._running:
            raise sent_twice()
        own = sum(1 for owner, _ in self._running if owner == name[0])
        if own >= _MOST_OF_OWNER or not self.slots.acquire(project_id):
            wrong = (
                f"{_MOST_OF_OWNER} of your statements, {self.slots.most_of_project} of your project's or"
                f" {self.slots.most} of all are running, which is the maximum"
            )
            raise Exhausted("TOO_MANY_STATEMENTS", wrong, "Wait until one of them ends, or cancel it.")


def _says_undone(error: Exception) -> bool:
    """Tell whether an error says that a statement changed nothing, and not only that its session has ended."""
    return isinstance(error, (Invalid, WrongState))
