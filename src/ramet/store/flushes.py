"""What SQLite has committed early and is not on disk yet: one flush of its log serves all commits before it.

SQLite flushes while it has the lock of writers, so that each writer waits for the flushes of all before it. A
transaction that is `early` gives up the lock first. What it has committed can be read then, though a power failure may
still take it back. Therefore none that writes ends before all that it may have seen is on disk: a step of an operation,
which is recorded before and after it, never acts on anything else, in this process or in another one on this machine.
"""

import contextlib
import os
import struct
import threading
from pathlib import Path

from ramet.errors import Unavailable
from ramet.store.turns import Turns

_NUMBER = struct.Struct("=Q")
_COMMITTED_AT, _FLUSHED_AT = 0, _NUMBER.size


class Flushes:
    """Numbers the early commits to the database at `path`, in the file whose lock is the turn of its writers.

    That file is shared by all processes. Where it cannot be written, nothing is early, and each transaction that writes
    flushes what others may have committed. The log must exist: it stays open, to learn of failed flushes of others.
    """

    def __init__(self, path: str, turns: Turns) -> None:
        self._path = Path(f"{path}-wal")
        self._turns = turns
        self._flushing = threading.Lock()
        self._ended = 0
        self._log: int | None = None
        self._has_failed = False
        with contextlib.suppress(Unavailable):
            self._opened()

    def begin(self) -> bool:
        """Number a commit that is to be early, before it is made; False if none can be. The caller has the turn."""
        known = None if self._log is None else self._read(_COMMITTED_AT)
        return known is not None and self._write(_COMMITTED_AT, known + 1)

    def check(self) -> None:
        """Raise Unavailable after a failed flush.

        Nothing counts as written then until the next start: the kernel forgets what it could not write, and a later
        success says nothing of that.
        """
        if self._has_failed:
            raise _failed()

    def seen(self) -> int | None:
        """Return the number of the newest early commit; None if it is not known. The caller has the turn."""
        return self._read(_COMMITTED_AT)

    def settle(self, seen: int | None) -> None:
        """Return when early commits up to the number `seen` are on disk, for None all of them. Raises Unavailable."""
        self.check()
        if seen is not None and self._is_flushed(seen):
            return
        self._ended = max(self._ended, seen or 0)
        with self._flushing:  # who has waited here mostly finds that the flush of another one has served it
            ended = max(self._ended, seen or 0)
            if seen is None or not self._is_flushed(seen):
                self._flush()
                self._write(_FLUSHED_AT, ended)

    def settle_all(self) -> None:
        """Return when all that can be read now is on disk, as far as it has to be. Raises Unavailable."""
        self.check()
        committed = self._read(_COMMITTED_AT)  # it is numbered before it can be read
        if committed is None or not self._is_flushed(committed):
            with self._turns.taken(patient=False):  # none is being made then
                seen = self.seen()
            self.settle(seen)

    def close(self) -> None:
        """Close the log; nothing is early any more."""
        with self._flushing:
            if self._log is not None:
                os.close(self._log)
            self._log = None

    def _is_flushed(self, number: int) -> bool:
        return (self._read(_FLUSHED_AT) or 0) >= number

    def _flush(self) -> None:
        self.check()
        log = self._opened()
        if log is None:
            return
        try:
            _fsync(log)
        except OSError as error:
            self._has_failed = True
            raise _failed() from error

    def _opened(self) -> int | None:
        """Return the log; None if there is none, for SQLite has flushed all of it, and then removed it."""
        try:
            if self._log is not None and not os.path.samestat(os.fstat(self._log), self._path.stat()):
                os.close(self._log)
                self._log = None
            if self._log is None:
                self._log = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable("STORE_UNAVAILABLE", "The log of the store cannot be opened", str(error)) from error
        return self._log

    def _read(self, offset: int) -> int | None:
        file = self._turns.file
        with contextlib.suppress(OSError):
            if file is not None:
                found = os.pread(file.number, _NUMBER.size, offset)  # nothing in a new file
                return int(_NUMBER.unpack(found.ljust(_NUMBER.size, b"\0"))[0])
        return None

    def _write(self, offset: int, number: int) -> bool:
        file = self._turns.file
        with contextlib.suppress(OSError):
            return file is not None and os.pwrite(file.number, _NUMBER.pack(number), offset) == _NUMBER.size
        return False


def _fsync(log: int) -> None:
    os.fdatasync(log)  # as SQLite does: only what finding the content takes of the metadata


def _failed() -> Unavailable:
    return Unavailable(
        "STORE_UNAVAILABLE",
        "The disk of the store could not be flushed, and what was written last may be lost",
        "See to the disk, and start Ramet again.",
    )
