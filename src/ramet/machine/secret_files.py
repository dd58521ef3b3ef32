"""Files with a secret of an installation: written durably and as a whole, and readable by their owner only."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path


def kept_secret(path: Path, new: Callable[[], bytes]) -> bytes:
    """Return the content of a file; the first call, of whatever process, makes it."""
    if not path.exists():
        partial = _write_partial(path, new())
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(partial, path)
        partial.unlink()
        flush_entries(path.parent)
    return path.read_bytes()


def replace_secret(path: Path, content: bytes) -> None:
    """Write a file, also over an earlier one; into a device or a pipe, which stays."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    _write_partial(path, content).replace(path)
    flush_entries(path.parent)


def _write_partial(path: Path, content: bytes) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return partial


def flush_entries(directory: Path) -> None:
    """Flush the names in a directory to disk: a power failure takes a name away that was only given."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
