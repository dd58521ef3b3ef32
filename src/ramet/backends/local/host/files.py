"""Files that join a data directory: private, and owned by whom the directory belongs to."""

import os
from pathlib import Path


def write_file(directory: Path, name: str, text: str = "") -> None:
    """Write a file of mode 0600 with the directory's owner; not flushed, for what is flushed as a whole later."""
    path = directory / name
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        _own_like(directory, path)
        file.write(text)


def make_directory(directory: Path, name: str) -> Path:
    """Make a directory of mode 0700 with the owner of the one that it lies in, unless it is there."""
    path = directory / name
    if not path.is_dir():
        path.mkdir(0o700)
        _own_like(directory, path)
    return path


def _own_like(directory: Path, path: Path) -> None:
    if os.geteuid() == 0:
        owner = directory.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
