"""Which Ramet processes run on a data directory: one `ramet up`, or any number of `ramet serve` and `ramet worker`.

The lock is what counts; the record beside it says whom to talk to, and is believed only while the lock is held.
"""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import msgspec

from ramet.cli.user_files.private_file import write_private
from ramet.errors import Unavailable, WrongState
from ramet.machine.processes import ProcessRecord, record_of

_PAUSE_SECONDS = 0.05
_LOCK_SECONDS = 0.5


@dataclass(frozen=True)
class Instance:
    """The `ramet up` of a data directory: its process, and where it listens."""

    process: ProcessRecord
    base_url: str


@contextlib.contextmanager
def alone(data_dir: Path) -> Iterator[None]:
    """Hold the data directory for this process alone. Raises WrongState, saying who holds it."""
    with _locked(data_dir, fcntl.LOCK_EX):
        try:
            yield
        finally:
            _record_path(data_dir).unlink(missing_ok=True)


@contextlib.contextmanager
def shared(data_dir: Path) -> Iterator[None]:
    """Hold the data directory together with others that share it. Raises WrongState, saying who holds it alone."""
    with _locked(data_dir, fcntl.LOCK_SH):
        yield


def announce(data_dir: Path, base_url: str) -> None:
    """Record that this process serves the data directory; the caller holds it alone."""
    process = record_of(os.getpid())
    if process is None:
        raise AssertionError("BUG: this process does not live")
    write_private(_record_path(data_dir), msgspec.json.encode(Instance(process, base_url)))


def running(data_dir: Path) -> Instance | None:
    """Return the `ramet up` of a data directory, or None when none is up."""
    try:
        found = msgspec.json.decode(_record_path(data_dir).read_bytes(), type=Instance)
    except (OSError, msgspec.DecodeError):
        return None
    return found if record_of(found.process.pid) == found.process and _is_held(data_dir) else None


def end(data_dir: Path, patience_seconds: float) -> Instance | None:
    """End the `ramet up` of a data directory and wait for it; return it, or None when none was up.

    Raises Unavailable when it is still at work after `patience_seconds`.
    """
    found = running(data_dir)
    if found is None:
        return None
    deadline = time.monotonic() + patience_seconds
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.process.pid, signal.SIGTERM)
    while running(data_dir) is not None:
        if time.monotonic() > deadline:
            raise Unavailable(
                "STILL_RUNNING",
                f"ramet up (pid {found.process.pid}) did not end within {patience_seconds:g} s",
                "Look at its log, and try again.",
            )
        time.sleep(_PAUSE_SECONDS)
    return found


@contextlib.contextmanager
def _locked(data_dir: Path, mode: int) -> Iterator[None]:
    with os.fdopen(os.open(_lock_path(data_dir), os.O_RDWR | os.O_CREAT, 0o600)) as file:
        deadline = time.monotonic() + _LOCK_SECONDS  # whoever only asks holds it for an instant
        while not _try_lock(file, mode):
            if running(data_dir) is not None or time.monotonic() > deadline:
                raise WrongState("DATA_DIR_IN_USE", _who_holds(data_dir), "Use that one, or another --data.")
            time.sleep(_PAUSE_SECONDS)
        yield


def _who_holds(data_dir: Path) -> str:
    found = running(data_dir)
    if found is None:
        return f"Another ramet process (serve, worker or down) is at work on {data_dir}"
    return f"ramet up (pid {found.process.pid}) already serves {data_dir} at {found.base_url}"


def _is_held(data_dir: Path) -> bool:
    try:
        with _lock_path(data_dir).open() as file:
            return not _try_lock(file, fcntl.LOCK_SH)
    except OSError:
        return False


def _try_lock(file: TextIO, mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_path(data_dir: Path) -> Path:
    return data_dir / "run.lock"


def _record_path(data_dir: Path) -> Path:
    return data_dir / "run.json"
