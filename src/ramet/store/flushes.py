"""What SQLite has committed early and is not on disk yet: one flush of its log serves all commits before it.

SQLite flushes while it has the lock of writers, so that each writer waits for the flushes of all before it. A
transaction that is `early` gives up the lock first. What it has committed can be read then, though a power failure may
still take it back. Therefore none that writes ends before all that it may have seen is on disk: a step of an operation,
which is recorded before and after it, never acts on anything else, in this process or in another one on this machine.
"""

import contextlib
import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ramet.errors import Unavailable
from ramet.store.turns import Turns

_BEGUN, _ENDED, _FLUSHED = range(3)  # numbers of commits, which only grow
_BYTES = 3 * 8


class Flushes:
    """Counts the commits to the database at `path` in a file beside it, which its processes share.

    Where that file cannot be made, this process only knows of its own commits.
    """

    def __init__(self, path: Path, turns: Turns) -> None:
        self._log = f"{path}-wal"
        self._file = path.with_suffix(".flushes")
        self._turns = turns
        self._numbers: memoryview | None = None
        self._has_failed = False
        self._opening = threading.Lock()
        self._flushing = threading.Lock()

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Count the commit that is done within, which has to be on disk. The caller has the turn of a writer."""
        numbers = self._shared()
        numbers[_BEGUN] += 1
        try:
            yield
        finally:
            numbers[_ENDED] = numbers[_BEGUN]

    def settle(self) -> None:
        """Return when all that can be read now is on disk, as far as it has to be. Raises Unavailable."""
        numbers = self._shared()
        wanted = numbers[_BEGUN]
        if numbers[_FLUSHED] >= wanted:
            return
        if numbers[_ENDED] < wanted:  # a commit is under way, or its process was killed within it
            with self._turns.taken(patient=False):
                numbers[_ENDED] = numbers[_BEGUN]
        with self._flushing:  # who waits here mostly finds that the flush of another one has served it
            ended = numbers[_ENDED]
            if numbers[_FLUSHED] < wanted:
                self._flush()
                numbers[_FLUSHED] = ended

    def close(self) -> None:
        """Close the file of numbers; the next use opens it again."""
        with self._opening:
            self._numbers = None

    def _flush(self) -> None:
        """Flush the log. After a failure the kernel forgets what was not written, and a later success says nothing."""
        if self._has_failed:
            raise _failed()
        try:
            with contextlib.suppress(FileNotFoundError):  # SQLite flushes before it removes its log
                _fsync(self._log)
        except OSError as error:
            self._has_failed = True
            raise _failed() from error

    def _shared(self) -> memoryview:
        if (numbers := self._numbers) is None:
            with self._opening:
                numbers = self._numbers = self._numbers or _mapped(self._file)
        return numbers


def _mapped(path: Path) -> memoryview:
    try:
        return _mapped_file(path)
    except OSError:
        return memoryview(mmap.mmap(-1, _BYTES)).cast("Q")


def _mapped_file(path: Path) -> memoryview:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(file).st_size < _BYTES:
            os.pwrite(file, bytes(_BYTES), 0)  # a hole would be a bus error where the disk is full
        return memoryview(mmap.mmap(file, _BYTES)).cast("Q")
    finally:
        os.close(file)


def _fsync(path: str) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _failed() -> Unavailable:
    return Unavailable(
        "STORE_UNAVAILABLE",
        "The disk of the store could not be flushed, and what was written last may be lost",
        "See to the disk, and start Ramet again.",
    )
