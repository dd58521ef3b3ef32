"""The order of SQLite's writers, in one process and in several on one machine."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from ramet.errors import Unavailable

BUSY_SECONDS = 30
_PAUSE_SECONDS = 0.0005


class LockFile:
    """An open file. It is closed when nobody uses it any more, so that its number is never that of another file."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


class Turns:
    """One writer at a time.

    Writers that find the database locked sleep up to 100 ms between attempts; threads that wait here continue at once,
    and other processes half a millisecond later. Of the patient threads only the first competes with the others, which
    therefore wait for few of them. Where the lock file at `path` cannot be made, SQLite's own lock does, only slower.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: LockFile | None = None
        self._writer = threading.Lock()
        self._first_patient = threading.Lock()

    @property
    def file(self) -> LockFile | None:
        """The lock file, which the processes share, as long as this one has a turn; None where it cannot be made."""
        return self._file

    def close(self) -> None:
        """Close the lock file; the next turn opens it again."""
        with self._writer:
            self._file = None

    @contextmanager
    def taken(self, patient: bool) -> Iterator[None]:
        """Hold the turn. Raises Unavailable when it was not free in time."""
        deadline = time.monotonic() + BUSY_SECONDS
        first = _held(self._first_patient, deadline) if patient else nullcontext()
        with first, _held(self._writer, deadline), self._alone(deadline):
            yield

    @contextmanager
    def _alone(self, deadline: float) -> Iterator[None]:
        """Keep other processes out."""
        file = self._file = _opened(self._path) if self._file is None else self._file
        if file is None:
            yield
            return
        while not _is_locked(file.number):
            if time.monotonic() > deadline:
                raise _busy()
            time.sleep(_PAUSE_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(file.number, fcntl.LOCK_UN)


def _opened(path: Path) -> LockFile | None:
    try:
        return LockFile(path)
    except OSError:
        return None


def _is_locked(file: int) -> bool:
    """Lock a file, unless another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _held(lock: threading.Lock, deadline: float) -> Iterator[None]:
    if not lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise _busy()
    try:
        yield
    finally:
        lock.release()


def _busy() -> Unavailable:
    return Unavailable("STORE_UNAVAILABLE", f"The store was busy for {BUSY_SECONDS} s", "Try again.")
