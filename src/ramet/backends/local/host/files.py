"""Private files and directories: written whole, locked, flushed, and owned by whom their directory belongs to."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ramet.machine.waiting import wait_until

_PAUSE_SECONDS = 0.02


def write(path: Path, content: str | bytes = "", *, durable: bool = False, mode: int = 0o600) -> None:
    """Put a file in place whole, with the owner of its directory; with `durable` it is on disk when this returns."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    with opened(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode) as descriptor:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content.encode() if isinstance(content, str) else content)
        if durable:
            os.fsync(descriptor)
    _own_like(path.parent, partial)
    partial.replace(path)
    if durable:
        flush(path.parent)


def read(path: Path) -> str:
    """Return what is in a file; nothing when there is none."""
    with suppress(FileNotFoundError):
        return path.read_text()
    return ""


def update(path: Path, text: str) -> None:
    """Put a text file in place whole, unless it has this text already."""
    if read(path) != text:
        write(path, text)


def make_directory(directory: Path, name: str) -> Path:
    """Make a subdirectory of mode 0700 with the owner of its parent, unless it exists."""
    path = directory / name
    if not path.is_dir():
        path.mkdir(0o700)
        _own_like(directory, path)
    return path


def flush(path: Path) -> None:
    """Flush a file, or the entries of a directory, to disk."""
    with opened(path) as descriptor:
        os.fsync(descriptor)


@contextmanager
def opened(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> Iterator[int]:
    """Open a file or directory, and yield its descriptor."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, *, timeout_seconds: float | None = None, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[None]:
    """Hold an exclusive lock against other threads and processes; the file is created when it does not exist.

    Raises TimeoutError when the lock is not free within `timeout_seconds`; None waits without a limit. A file that was
    removed by whoever held its lock is created again: others would not see a lock on the removed one.
    """
    is_held = False
    while not is_held:
        with opened(path, flags) as descriptor:
            if timeout_seconds is None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            elif not wait_until(lambda: _try_lock(descriptor), timeout_seconds, _PAUSE_SECONDS):
                raise TimeoutError(f"{path} is locked by another process")
            is_held = not flags & os.O_CREAT or _is_at(descriptor, path)
            if is_held:
                yield


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _own_like(directory: Path, path: Path) -> None:
    if os.geteuid() == 0:
        owner = directory.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
