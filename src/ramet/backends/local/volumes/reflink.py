"""Copy file by file, sharing blocks (FICLONE): XFS, btrfs and every other file system that clones files."""

import fcntl
import os
from pathlib import Path

from ramet.backends.local.volumes import copy_tree, disk_usage
from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.volumes.driver import NOTHING, Exclusions

_FICLONE = 0x40049409


class ReflinkDriver(CopyDriver):
    """Each file of a clone shares its blocks with the source until one of the two is written."""

    name = "reflink"
    shares_blocks = True

    def transfer(self) -> copy_tree.Transfer:
        """Return how the content of one file is shared."""
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


def share(source: int, target: int, _status: os.stat_result) -> None:
    """Let the empty file `target` share all blocks of `source`."""
    fcntl.ioctl(target, _FICLONE, source)
