"""Copy file by file, sharing blocks (FICLONE): XFS, btrfs and every other file system that clones files."""

import errno
import fcntl
import os
import struct
import time
from pathlib import Path

from ramet.backends.local.volumes import copy_tree, disk_usage
from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.volumes.driver import NOTHING, Exclusions
from ramet.backends.local.volumes.syscalls import write_back

_FICLONE = 0x40049409
_FICLONERANGE = 0x4020940D
_FIRST_BYTES = 16 * 1024**2
_LEAST_BYTES = 1024**2
_LOCKED_SECONDS = 0.005


class ReflinkDriver(CopyDriver):
    """Each file of a clone shares its blocks with the source until one of the two is written."""

    name = "reflink"
    shares_blocks = True

    def transfer(self) -> copy_tree.Transfer:
        """Return how the content of one file is shared."""
        return share

    def tree_transfer(self) -> copy_tree.Transfer:
        """Return the same for a file of a tree: that takes no space."""
        return share

    def describe(self) -> str:
        """Say in one sentence what a fork costs."""
        return "A fork shares every block with its parent; its time grows with the number of files, not their size."

    def estimate_bytes(self, source: Path, exclusions: Exclusions = NOTHING) -> int:
        """Return 0: blocks are shared."""
        return 0

    def exclusive_bytes(self, path: Path) -> int:
        """Return the bytes on disk that no other tree shares."""
        return disk_usage.exclusive_bytes(path)


def share(source: int, target: int, status: os.stat_result) -> None:
    """Let the empty file `target` share all blocks of `source`.

    Nobody can read or write a file while a range of it is being shared, which takes as long as it has dirty pages and
    extents. So a large file is shared in pieces, as large as can be shared in a few milliseconds.
    """
    offset, size = 0, _FIRST_BYTES
    while status.st_size - offset > size:
        write_back(source, offset, size)
        begun = time.monotonic()
        if not _share_range(source, target, offset, size):
            break  # the file has been truncated
        offset += size
        size = max(_LEAST_BYTES, size // 2) if time.monotonic() - begun > _LOCKED_SECONDS else size * 2
    if offset == 0:
        fcntl.ioctl(target, _FICLONE, source)
    elif os.fstat(source).st_size > offset:
        write_back(source, offset)
        _share_range(source, target, offset)


def _share_range(source: int, target: int, offset: int, size: int = 0) -> bool:
    """Share a range, by default to the end of the file; False when the file is shorter than the range."""
    try:
        fcntl.ioctl(target, _FICLONERANGE, struct.pack("=qQQQ", source, offset, size, offset))
    except OSError as error:
        if error.errno != errno.EINVAL or os.fstat(source).st_size >= offset + size:
            raise
        return False
    return True
