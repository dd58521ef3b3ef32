"""Which Ramet processes run on a data directory: one `ramet up`, or any number of `ramet serve` and `ramet worker`.

Over SQLite there is one `ramet worker`: operations of one that was killed continue as soon as the next one starts.

The lock decides. The record next to it has the process and its address, and is valid only while the lock is held.
"""

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import msgspec

from ramet.cli.user_files.files import write_private
from ramet.errors import Unavailable, WrongState
from ramet.machine.processes import WORKER_RECORD, ProcessRecord, record_of, recorded_in
from ramet.machine.waiting import wait_until

_PAUSE_SECONDS = 0.05
_LOCK_SECONDS = 0.5
_REMEDY = "Use that one, or another --data."


@dataclass(frozen=True)
class Instance:
    """The `ramet up` of a data directory: its process, where it listens, and what to verify it with, as PEM.

    `endpoint_host` is the host that the endpoints of new services announce.
    """

    process: ProcessRecord
    base_url: str
    ca: str = ""
    endpoint_host: str = ""


@contextlib.contextmanager
def alone(data_dir: Path, remedy: str = _REMEDY) -> Iterator[None]:
    """Lock the data directory exclusively. Raises WrongState, with the process that has locked it and a remedy."""
    with _locked(data_dir, fcntl.LOCK_EX, remedy):
        _worker_path(data_dir).unlink(missing_ok=True)  # that of one that was killed
        try:
            yield
        finally:
            _record_path(data_dir).unlink(missing_ok=True)


@contextlib.contextmanager
def shared(data_dir: Path) -> Iterator[None]:
    """Lock the data directory together with others. Raises WrongState if one has it alone."""
    with _locked(data_dir, fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def working(data_dir: Path, *, alone: bool) -> Iterator[None]:
    """Record that this process runs the operations; the caller has a shared lock on the data directory.

    `alone` keeps others from doing so, too. Raises WrongState when one does.
    """
    lock, process = data_dir / "worker.lock", _this_process()
    with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)) as file:
        if alone and not wait_until(lambda: _try_lock(file, fcntl.LOCK_EX), _LOCK_SECONDS, _PAUSE_SECONDS):
            raise WrongState(
                "DATA_DIR_IN_USE",
                f"Another ramet worker runs the operations of {data_dir}",
                "Let that one run them, or use PostgreSQL for the store (RAMET_DATABASE_URL), which may have several.",
            )
        write_private(_worker_path(data_dir), msgspec.json.encode(process))
        try:
            yield
        finally:
            if recorded_in(_worker_path(data_dir)) == process:
                _worker_path(data_dir).unlink()


def announce(data_dir: Path, base_url: str, ca: str = "", endpoint_host: str = "") -> None:
    """Record that this process serves the data directory, which the caller has locked exclusively."""
    found = Instance(_this_process(), base_url, ca, endpoint_host)
    write_private(_record_path(data_dir), msgspec.json.encode(found))


def running(data_dir: Path) -> Instance | None:
    """Return the `ramet up` of a data directory, or None if none is running."""
    try:
        found = msgspec.json.decode(_record_path(data_dir).read_bytes(), type=Instance)
    except (OSError, msgspec.DecodeError):
        return None
    return found if record_of(found.process.pid) == found.process and _is_held(data_dir) else None


def has_worker(data_dir: Path) -> bool:
    """Tell whether a process on this host runs the operations of a data directory."""
    return running(data_dir) is not None or recorded_in(_worker_path(data_dir)) is not None


def is_in_use(data_dir: Path) -> bool:
    """Tell whether any process of Ramet works on a data directory, alone or together with others."""
    return _is_held(data_dir, fcntl.LOCK_EX)


def end(data_dir: Path, timeout_seconds: float) -> Instance | None:
    """Stop the `ramet up` of a data directory, and wait for it. Return it, or None if none was running.

    Raises Unavailable if it still runs after `timeout_seconds`.
    """
    found = running(data_dir)
    if found is None:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.process.pid, signal.SIGTERM)
    if not wait_until(lambda: not _is_held(data_dir), timeout_seconds, _PAUSE_SECONDS):
        raise Unavailable(
            "STILL_RUNNING",
            f"ramet up (pid {found.process.pid}) did not stop within {timeout_seconds:g} s",
            "Read its log, and try again.",
        )
    return found


@contextlib.contextmanager
def _locked(data_dir: Path, mode: int, remedy: str = _REMEDY) -> Iterator[None]:
    with os.fdopen(os.open(_lock_path(data_dir), os.O_RDWR | os.O_CREAT, 0o600)) as file:
        # Not at once: `running` in another process takes the lock for an instant.
        if not wait_until(lambda: _try_lock(file, mode), _LOCK_SECONDS, _PAUSE_SECONDS):
            raise _in_use(data_dir, remedy)
        yield


def _in_use(data_dir: Path, remedy: str) -> WrongState:
    """Return the error for a data directory that others have locked. Who has it alone, but `ramet up`, ends soon."""
    found = running(data_dir)
    if found is not None:
        return WrongState(
            "DATA_DIR_IN_USE",
            f"ramet up (pid {found.process.pid}) already serves {data_dir} at {found.base_url}",
            remedy,
        )
    if _is_held(data_dir):
        return WrongState(
            "DATA_DIR_IN_USE",
            f"ramet recover, ramet down, or a ramet up that begins, is using {data_dir}",
            "Try again when it has ended, or has begun to serve.",
        )
    return WrongState("DATA_DIR_IN_USE", f"Another ramet process (serve or worker) is using {data_dir}", remedy)


def _is_held(data_dir: Path, mode: int = fcntl.LOCK_SH) -> bool:
    try:
        with _lock_path(data_dir).open() as file:
            return not _try_lock(file, mode)
    except FileNotFoundError:  # not one of another user: whether that is locked is not known
        return False


def _try_lock(file: TextIO, mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _this_process() -> ProcessRecord:
    process = record_of(os.getpid())
    if process is None:
        raise AssertionError("BUG: this process does not exist")
    return process


def _lock_path(data_dir: Path) -> Path:
    return data_dir / "run.lock"


def _record_path(data_dir: Path) -> Path:
    return data_dir / "run.json"


def _worker_path(data_dir: Path) -> Path:
    return data_dir / WORKER_RECORD
