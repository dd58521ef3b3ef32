"""Files with a secret of an installation: written durably and as a whole, and readable by their owner only."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def kept_secret(path: Path, new: Callable[[], bytes]) -> bytes:
    """Return the content of a file; the first call, of whatever process, makes it."""
    if not path.exists():
        with _written_beside(path, new()) as partial, suppress(FileExistsError):  # another process was first
            os.link(partial, path)
        flush_entries(path.parent)
    return path.read_bytes()


def replace_secret(path: Path, content: bytes) -> None:
    """Write a file, also over an earlier one; into a device, a pipe or an open file of this process, which stays."""
    if is_stream(path):
        with path.open("ab") as file:  # after what an open file has: `>>` keeps that
            file.write(content)
        return
    with _written_beside(path, content) as partial:
        partial.replace(path)
    flush_entries(path.parent)


def is_stream(path: Path) -> bool:
    """Tell whether a path leads to a device, a pipe or an open file of this process, which cannot be replaced."""
    return path.exists() and (not path.is_file() or _is_open_file(path))


def _is_open_file(path: Path) -> bool:
    """Tell whether a name such as /dev/stdout leads to an open file. Links elsewhere may be anybody's: not these."""
    directory = path.parent.resolve()
    return path.is_symlink() and (directory == Path("/dev") or directory.is_relative_to("/proc"))


@contextmanager
def _written_beside(path: Path, content: bytes) -> Iterator[Path]:
    """Write a file beside a path, for the block to put in its place; it is removed if it is still there after that."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def flush_entries(directory: Path) -> None:
    """Flush the names in a directory to disk: a power failure takes a name away that was only given."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
