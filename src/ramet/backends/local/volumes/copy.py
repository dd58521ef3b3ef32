"""Copy all bytes: works on every file system, and takes time and space in proportion to the data."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

from ramet.backends.local.volumes import copy_tree, disk_usage, helper_process
from ramet.backends.local.volumes.atomic import built_at, remove_apart, remove_files, removed_from
from ramet.backends.local.volumes.driver import NOTHING, CloneStatistics, Exclusions
from ramet.errors import Exhausted

RESERVE_BYTES = 128 * 1024 * 1024
_CHUNK_BYTES = 8 * 1024 * 1024
_NO_KERNEL_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


class CopyDriver:
    """Trees are plain directories that are copied file by file; a clone has its own blocks from the start."""

    name = "copy"
    atomic = False
    shares_blocks = False

    def transfer(self) -> copy_tree.Transfer:
        """Return how the content of one file is copied; a function of a module, for another process calls it."""
        return copy_bytes

    def tree_transfer(self) -> copy_tree.Transfer:
        """Return how the content of a file of a tree is copied: a tree may take all the space that is left."""
        return copy_sparing_reserve

    def describe(self) -> str:
        """Say in one sentence what a fork costs."""
        return (
            "A fork copies all of its parent's data; it takes the time and the space that the data takes."
            " Snapshots are compressed: each takes a tenth to a half of the space of the data."
        )

    def create_tree(self, path: Path) -> None:
        """Make an empty tree."""
        path.mkdir(0o700)

    def clone_tree(self, source: Path, target: Path, exclusions: Exclusions = NOTHING) -> CloneStatistics:
        """Make `target` a copy of the tree `source`. Raises Exhausted when there is not enough free space."""
        with built_at(target, remove_apart) as partial:
            ensure_room(self.estimate_bytes(source, exclusions), target)
            form = copy_tree.same_names(self.tree_transfer())
            return helper_process.call_to_copy(copy_tree.copy_tree, source, partial, exclusions, form)

    def remove_tree(self, path: Path) -> None:
        """Remove a tree and every incomplete one of that name."""
        removed_from(path, remove_apart)

    def clone_file(self, source: Path, target: Path) -> None:
        """Make `target` a copy of one file."""
        with built_at(target, remove_files, sweep=False) as partial:
            copy_tree.copy_file(source, partial, self.transfer())

    def estimate_bytes(self, source: Path, exclusions: Exclusions = NOTHING) -> int:
        """Return the disk space that a clone would take."""
        return disk_usage.allocated_bytes(source, exclusions)

    def exclusive_bytes(self, path: Path) -> int:
        """Return the bytes on disk."""
        return disk_usage.allocated_bytes(path)


def check_reserve(descriptor: int) -> None:
    """Raise OSError before servers cannot write their WAL: other copies, and what is written, take space as well."""
    status = os.fstatvfs(descriptor)
    if status.f_bavail * status.f_frsize < RESERVE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def copy_sparing_reserve(source: int, target: int, status: os.stat_result) -> None:
    """Do the same as `copy_bytes`. Raises OSError before servers cannot write their WAL."""
    copy_bytes(source, target, status, check_reserve)


def copy_bytes(
    source: int, target: int, status: os.stat_result, check: Callable[[int], None] = lambda _descriptor: None
) -> None:
    """Copy the data of an open file, and keep its holes; `check` is called with the target before each chunk."""
    offset = 0
    while (data := _seek(source, offset, os.SEEK_DATA)) is not None and data < status.st_size:
        hole = _seek(source, data, os.SEEK_HOLE)
        end = status.st_size if hole is None else min(hole, status.st_size)
        offset = _copy_range(source, target, data, end, check)
        if offset < end:
            break  # the file was truncated during the copy
    os.ftruncate(target, min(status.st_size, os.fstat(source).st_size))


def _seek(descriptor: int, offset: int, whence: int) -> int | None:
    """Return where the next data or hole begins; None after the last data and beyond the end."""
    try:
        return os.lseek(descriptor, offset, whence)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


def _copy_range(source: int, target: int, start: int, end: int, check: Callable[[int], None]) -> int:
    """Copy from start to end and return how far it went: less than `end` only at the end of the file."""
    while start < end:
        check(target)
        count = _copy_some(source, target, start, min(end - start, _CHUNK_BYTES))
        if not count:
            break
        start += count
    return start


def _copy_some(source: int, target: int, offset: int, count: int) -> int:
    try:
        return os.copy_file_range(source, target, count, offset, offset)
    except OSError as error:
        if error.errno not in _NO_KERNEL_COPY:
            raise
    os.lseek(target, offset, os.SEEK_SET)
    return os.sendfile(target, source, offset, count)


def ensure_room(needed_bytes: int, target: Path) -> None:
    """Raise Exhausted when less than that, and what servers need to go on, is free where `target` is to be made."""
    if not needed_bytes:
        return
    free_bytes = disk_usage.free_bytes(target.parent)
    if needed_bytes + RESERVE_BYTES > free_bytes:
        raise Exhausted(
            "NOT_ENOUGH_DISK",
            f"A copy at {target} needs {needed_bytes:,} bytes, {RESERVE_BYTES:,} must stay free, and {free_bytes:,}"
            " are free."
            " Free space, or move the data root to XFS or btrfs, where forks share blocks",
        )
