"""System calls that Python does not offer."""

import ctypes
import errno
import os
from pathlib import Path

from ramet.backends.local.host.files import opened

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_WRITE_AND_WAIT = 0b111  # SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER
_STATFS_BYTES = 256  # more than struct statfs has on any architecture; it begins with the type
_XFS_MAGIC = 0x58465342
_PUNCH_HOLE = 0b11  # FALLOC_FL_KEEP_SIZE and _PUNCH_HOLE

_libc = ctypes.CDLL(None, use_errno=True)


class NotFlushed(OSError):
    """Something could not be written. The kernel says so once: the next flush succeeds, and does not write it."""


def sync_tree(path: Path) -> None:
    """Flush the whole file system of `path` (syncfs): one call for any number of files. Raises NotFlushed."""
    with opened(path) as descriptor:
        if _libc.syncfs(descriptor) != 0:
            _raise_errno(path, NotFlushed)


def write_back(descriptor: int, offset: int = 0, size: int = 0) -> None:
    """Write the dirty pages of a range of an open file to its disk; without `size` those up to its end.

    Unlike fsync it flushes neither metadata nor the disk's own cache. Readers and writers of the file do not wait.
    Raises NotFlushed.
    """
    place, count = ctypes.c_int64(offset), ctypes.c_int64(size)
    if _libc.sync_file_range(descriptor, place, count, ctypes.c_uint(_WRITE_AND_WAIT)) != 0:
        _raise_errno(Path(f"/proc/self/fd/{descriptor}").readlink(), NotFlushed)


def punch_hole(descriptor: int, offset: int, size: int) -> None:
    """Free the blocks of a range of an open file, which then reads as zeros. Raises OSError where it cannot."""
    place, count = ctypes.c_int64(offset), ctypes.c_int64(size)
    if _libc.fallocate(descriptor, ctypes.c_int(_PUNCH_HOLE), place, count) != 0:
        _raise_errno(Path(f"/proc/self/fd/{descriptor}"))


def is_xfs(path: Path) -> bool:
    """Tell whether a path is in an XFS file system."""
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.statfs(os.fsencode(path), found) != 0:
        _raise_errno(path)
    return ctypes.c_long.from_buffer(found).value == _XFS_MAGIC


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


def _raise_errno(path: Path, kind: type[OSError] = OSError) -> None:
    number = ctypes.get_errno()
    raise kind(number, os.strerror(number), str(path))
