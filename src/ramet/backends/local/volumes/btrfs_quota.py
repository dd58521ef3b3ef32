"""Simple quotas of btrfs: a subvolume is charged for the blocks that were written in it, as long as they are in use.

A fork is not charged for blocks that it shares with its parent. Blocks that the parent has replaced still count for the
parent as long as a snapshot or a fork uses them. Only data directories are subvolumes, so the archive does not count.
"""

import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from ramet.backends.local.host.files import opened
from ramet.backends.local.volumes.quota import Place, Quotas

# linux/btrfs.h and linux/btrfs_tree.h
_QUOTA_CTL, _QGROUP_LIMIT, _TREE_SEARCH, _INO_LOOKUP = 0xC0109428, 0x8030942B, 0xD0009411, 0xD0009412
_ENABLE_SIMPLE = 4
_LIMIT_REFERENCED = 1
_QUOTA_TREE, _QGROUP_INFO, _FIRST_INODE = 8, 242, 256
_MOST = 2**64 - 1
_BUFFER_BYTES = 4096
_KEY = struct.Struct("=7Q4I4Q")
_COUNT_AT = 64
_ITEM_AT = 104 + 32
_GIB = 1024**3


@dataclass(frozen=True)
class BtrfsQuotas(Quotas):
    """A limit for each data directory, which is a subvolume."""

    limit_bytes: int

    def describe(self) -> str:
        """Say what is enforced."""
        return (
            f"The data, WAL and temporary files of a service may take {self.limit_bytes / _GIB:g} GiB"
            " (simple quotas of btrfs); its archive and snapshots are limited by the restore window only."
        )

    def apply(self, place: Place) -> None:
        """Set the limit of the data directory."""
        with opened(place.data) as descriptor:
            if os.fstat(descriptor).st_ino != _FIRST_INODE:
                return  # not a subvolume: the limit would apply to its whole parent
            request = struct.pack("=QQQQQQ", 0, _LIMIT_REFERENCED, self.limit_bytes, 0, 0, 0)
            fcntl.ioctl(descriptor, _QGROUP_LIMIT, request)

    def free_bytes(self, place: Place) -> int | None:
        """Return the bytes that may still be written to the data directory."""
        used = used_bytes(place.data)
        return None if used is None else max(0, self.limit_bytes - used)


def enable(path: Path) -> None:
    """Enable simple quotas for the whole file system; may run again. Raises OSError when the kernel has none."""
    with opened(path) as descriptor:
        fcntl.ioctl(descriptor, _QUOTA_CTL, struct.pack("=QQ", _ENABLE_SIMPLE, 0))


def used_bytes(subvolume: Path) -> int | None:
    """Return the bytes that a subvolume is charged for; None without quotas."""
    with opened(subvolume) as descriptor:
        found = bytearray(_BUFFER_BYTES)
        struct.pack_into("=QQ", found, 0, 0, _FIRST_INODE)
        fcntl.ioctl(descriptor, _INO_LOOKUP, found)
        (identifier,) = struct.unpack_from("=Q", found, 0)
        found = bytearray(_BUFFER_BYTES)
        wanted = (_QUOTA_TREE, 0, 0, identifier, identifier, 0, _MOST, _QGROUP_INFO, _QGROUP_INFO, 1, 0, 0, 0, 0, 0)
        _KEY.pack_into(found, 0, *wanted)
        fcntl.ioctl(descriptor, _TREE_SEARCH, found)
    (count,) = struct.unpack_from("=I", found, _COUNT_AT)
    if count == 0:
        return None
    _generation, referenced = struct.unpack_from("=QQ", found, _ITEM_AT)
    return int(referenced)
