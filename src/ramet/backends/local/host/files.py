"""Private files and directories: written whole, locked, flushed, and owned by whom their directory belongs to."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from ramet.backends.local.host.own_faults import GONE
from ramet.errors import Failed
from ramet.machine.waiting import wait_until

_PAUSE_SECONDS = 0.02
_ERRORS = "surrogateescape"


def write(path: Path, content: str | bytes = "", *, durable: bool = False, mode: int = 0o600) -> None:
    """Put a file in place whole, with the owner of its directory; with `durable` it is on disk when this returns.

    Surrogates in a text are bytes that are no UTF-8 (PEP 383), as where it has been read with "surrogateescape".
    """
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    with opened(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode) as descriptor:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content.encode(errors=_ERRORS) if isinstance(content, str) else content)
        _own_like(path.parent, descriptor)
        if durable:
            os.fsync(descriptor)
    partial.replace(path)
    if durable:
        flush(path.parent)


def read(path: Path, *, errors: str = "strict", parent: int | None = None) -> str:
    """Return what is in a text file; nothing when there is none, or a symbolic link. `parent` is as for `opened`."""
    with suppress(FileNotFoundError):
        return read_existing(path, errors=errors, parent=parent)
    return ""


def read_existing(path: Path, *, errors: str = "strict", parent: int | None = None) -> str:
    """Return what is in a text file. Raises FileNotFoundError where `read` returns nothing."""
    return read_bytes(path, parent=parent).decode(errors=errors)


def read_bytes(path: Path, *, parent: int | None = None) -> bytes:
    """Return what is in a file. Raises FileNotFoundError where `read` returns nothing."""
    with plain(path, parent=parent) as file:
        return file.read()


@contextmanager
def plain(path: Path, *, parent: int | None = None) -> Iterator[BufferedReader]:
    """Open a file to read it. Raises FileNotFoundError also for a symbolic link: root would show what it points to."""
    with ExitStack() as stack:
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = stack.enter_context(opened(path, flags, parent=parent))
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _no_file(path) from error
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _no_file(path)
        yield stack.enter_context(open(descriptor, "rb", closefd=False))


def _no_file(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "Not a file, and so not read", str(path))


def is_there(path: Path) -> bool:
    """Tell whether there is something at a path, which may be a link to it. Raises OSError where that cannot be known.

    `Path.exists` and its like answer no then, from Python 3.14 on.
    """
    with suppress(*GONE):
        path.stat()
        return True
    return False


@contextmanager
def changed(path: Path) -> Iterator[BinaryIO]:
    """Open a file to change it in place. Raises OSError for a symbolic link, and for a file that has other names."""
    with opened(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK) as descriptor:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise _no_file(path)
        with open(descriptor, "r+b", closefd=False) as file:
            yield file


def update(path: Path, text: str) -> None:
    """Put a text file in place whole, unless it has this text already."""
    if read(path, errors=_ERRORS) != text:
        write(path, text)


def make_directory(directory: Path, name: str) -> Path:
    """Make a subdirectory of mode 0700 with the owner of its parent, unless it exists."""
    path = directory / name
    if not path.is_dir():
        path.mkdir(0o700)
        with opened_directory(path) as descriptor:
            _own_like(directory, descriptor)
    return path


def flush(path: Path) -> None:
    """Flush a file, or the entries of a directory, to disk."""
    with opened(path) as descriptor:
        os.fsync(descriptor)


@contextmanager
def opened(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600, *, parent: int | None = None) -> Iterator[int]:
    """Open a file or directory, and yield its descriptor; with `parent` the one of its name in that open directory."""
    descriptor = os.open(path if parent is None else path.name, flags | os.O_CLOEXEC, mode, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_directory(path: Path, *, parent: int | None = None) -> Iterator[int]:
    """Open a directory as `opened` does. Raises Failed for a symbolic link: root would work where that points."""
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, parent=parent))
        except NotADirectoryError as error:
            raise Failed(
                "NOT_A_DIRECTORY",
                f"{path} must be a directory, and must not be a symbolic link. Remove it, and try again",
            ) from error
        yield descriptor


@contextmanager
def output(top: Path, path: Path, *, keep: bool = False) -> Iterator[int]:
    """Open a file for the output of a program, empty or with `keep` as it is, and yield its descriptor.

    The user of the program may write to all directories from `top` on, which is above the file: no symbolic link there
    is followed, and one in place of the file is replaced. The file gets the owner of its directory.
    """
    with ExitStack() as stack:
        directory = stack.enter_context(opened_directory(top))
        for above in reversed(path.relative_to(top).parents[:-1]):
            directory = stack.enter_context(opened_directory(top / above, parent=directory))
        is_kept = keep and _is_plain(directory, path.name)
        if not is_kept:
            with suppress(FileNotFoundError):
                os.unlink(path.name, dir_fd=directory)
        flags = os.O_APPEND if is_kept else os.O_CREAT | os.O_EXCL
        made = stack.enter_context(opened(path, os.O_WRONLY | os.O_NOFOLLOW | flags, parent=directory))
        if not is_kept:
            _own_like(directory, made)
        yield made


def _is_plain(directory: int, name: str) -> bool:
    with suppress(FileNotFoundError):
        found = os.lstat(name, dir_fd=directory)
        return stat.S_ISREG(found.st_mode) and found.st_nlink == 1
    return False


@contextmanager
def locked(path: Path, *, timeout_seconds: float | None = None, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[None]:
    """Hold an exclusive lock against other threads and processes; the file is created when it does not exist.

    Raises TimeoutError when the lock is not free within `timeout_seconds`; None waits without a limit. A file that was
    removed by whoever held its lock is created again: others would not see a lock on the removed one.
    """
    is_held = False
    while not is_held:
        with opened(path, flags | os.O_NOFOLLOW) as descriptor:
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


def _own_like(directory: Path | int, descriptor: int) -> None:
    if os.geteuid() == 0:
        owner = directory.stat() if isinstance(directory, Path) else os.fstat(directory)
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
