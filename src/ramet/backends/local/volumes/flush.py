"""Flush a tree to disk without what others have written to the same file system, where that is possible.

XFS records all changes of metadata in the order in which they are made, in one log: whatever flushes the log up to one
change has flushed all earlier ones. The content of files is written back before, file by file.
"""

import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from ramet.backends.local.host.files import opened
from ramet.backends.local.volumes import helper_process
from ramet.backends.local.volumes.syscalls import is_xfs, sync_tree, write_back


def flush_tree(path: Path, written_back: Path | None = None, changed: Sequence[Path] = ()) -> None:
    """Flush all that is below a directory, while others may add to it and remove from it.

    `written_back` is a directory below it in which the content of all files except the `changed` ones is on disk
    already, and only their metadata may not be. File systems other than XFS are flushed as a whole.
    """
    if not is_xfs(path):
        sync_tree(path)
        return
    if written_back is None:
        helper_process.call(write_back_all, path, None)
    else:  # the few files beside it are not worth waiting for a helper process
        write_back_all(path, written_back)
        for file in changed:
            _write_back(file)
    _flush_log(path)


def write_back_all(path: Path, besides: Path | None) -> None:
    """Write back the content of all files below a directory except those in the directory `besides`."""
    left_out = None if besides is None else os.fspath(besides)
    for directory, names, files in os.walk(path):
        names[:] = [name for name in names if f"{directory}/{name}" != left_out]
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                _write_back(Path(directory, name))


def _write_back(path: Path) -> None:
    if stat.S_ISREG(path.lstat().st_mode):
        with opened(path, os.O_RDONLY | os.O_NOFOLLOW) as descriptor:
            write_back(descriptor)


def _flush_log(path: Path) -> None:
    """Flush what XFS has logged: a file that is made now is its newest change."""
    with opened(path, os.O_TMPFILE | os.O_WRONLY) as descriptor:
        os.fsync(descriptor)
