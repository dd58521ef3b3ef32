"""The disk space of a tree: all of its blocks, or those that no other file shares (FIEMAP)."""

import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from ramet.backends.local.volumes.driver import NOTHING, Exclusions

_BLOCK_BYTES = 512  # of st_blocks, on every file system (stat(2))
_FIEMAP = 0xC020660B
_HEADER = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQQQIIII")
_BATCH = 256
_LAST = 0x1
_INLINE = 0x200
_SHARED = 0x2000


def free_bytes(path: Path) -> int:
    """Return the bytes that an ordinary user may still write to the file system of `path`."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def allocated_bytes(path: Path, exclusions: Exclusions = NOTHING) -> int:
    """Sum the blocks of the files under `path`, shared or not; files that disappear during the walk do not count."""
    total = 0
    for name, directory in _files(path, exclusions):
        try:
            total += os.stat(name, dir_fd=directory, follow_symlinks=False).st_blocks * _BLOCK_BYTES
        except FileNotFoundError:
            continue
    return total


def exclusive_bytes(path: Path, exclusions: Exclusions = NOTHING) -> int:
    """Sum the extents under `path` that no other file shares; files that disappear during the walk do not count.

    Inline extents (small files on btrfs) do not count either: they have no blocks.
    """
    total = 0
    for name, directory in _files(path, exclusions):
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        except OSError:
            continue  # vanished, or nothing with blocks: a symbolic link, a socket
        try:
            # FIEMAP on a pipe makes XFS report corruption in the kernel log.
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                total += sum(length for length, flags in _extents(descriptor) if not flags & (_SHARED | _INLINE))
        finally:
            os.close(descriptor)
    return total


def _files(path: Path, exclusions: Exclusions) -> Iterator[tuple[str, int]]:
    """Yield the name of each file and the open directory that it is in."""
    for directory, directories, names, descriptor in os.fwalk(path):
        relative = os.path.relpath(directory, path)
        if relative in exclusions.emptied:
            directories.clear()
            continue
        directories[:] = [name for name in directories if not exclusions.leaves_out(name)]
        for name in names:
            if not exclusions.leaves_out(name):
                yield name, descriptor


def _extents(descriptor: int) -> Iterator[tuple[int, int]]:
    """Yield length and flags of each extent of an open file."""
    start = 0
    while True:
        request = bytearray(_HEADER.size + _BATCH * _EXTENT.size)
        _HEADER.pack_into(request, 0, start, 2**64 - 1 - start, 0, 0, _BATCH, 0)
        fcntl.ioctl(descriptor, _FIEMAP, request)
        count = _HEADER.unpack_from(request)[3]
        flags = _LAST
        for index in range(count):
            extent = _EXTENT.unpack_from(request, _HEADER.size + index * _EXTENT.size)
            logical, length, flags = extent[0], extent[2], extent[5]
            start = logical + length
            yield length, flags
        if flags & _LAST:
            return
