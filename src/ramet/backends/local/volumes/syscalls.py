"""System calls that Python does not offer."""

import ctypes
import errno
import os
from pathlib import Path

from ramet.backends.local.host.files import opened

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1

_libc = ctypes.CDLL(None, use_errno=True)


def sync_tree(path: Path) -> None:
    """Flush the whole file system of `path` (syncfs): one call for any number of files."""
    with opened(path) as descriptor:
        if _libc.syncfs(descriptor) != 0:
            _raise_errno(path)


def move_new(source: Path, target: Path) -> None:
    """Rename without replacing. Raises FileExistsError."""
    if _rename_noreplace(source, target) == 0:
        return
    if ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS):
        _raise_errno(target)
    # Network file systems lack RENAME_NOREPLACE: there the check and the rename are two steps.
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    source.rename(target)


def _rename_noreplace(source: Path, target: Path) -> int:
    result: int = _libc.renameat2(
        _AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), ctypes.c_uint(_RENAME_NOREPLACE)
    )
    return result


def _raise_errno(path: Path) -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), str(path))
