"""Copy file by file, sharing blocks (FICLONE): XFS, btrfs and every other file system that clones files."""

import fcntl
import os
from pathlib import Path

from ramet.backends.local.volumes import copy_tree, disk_usage, helper_process
from ramet.backends.local.volumes.atomic import built_at, remove_apart, remove_files, removed_from
from ramet.backends.local.volumes.driver import NOTHING, CloneStatistics, Exclusions

_FICLONE = 0x40049409


class ReflinkDriver:
    """Trees are plain directories; each file of a clone shares its blocks with the source until one is written."""

    name = "reflink"
    atomic = False
    shares_blocks = True

    def describe(self) -> str:
        """Say in one sentence what a fork costs."""
        return "A fork shares every block with its parent; its time grows with the number of files, not their size."

    def create_tree(self, path: Path) -> None:
        """Make an empty tree."""
        path.mkdir(0o700)

    def clone_tree(self, source: Path, target: Path, exclusions: Exclusions = NOTHING) -> CloneStatistics:
        """Make `target` a copy of the tree `source`."""
        with built_at(target, remove_apart) as partial:
            return helper_process.call(copy_tree.copy_tree, source, partial, exclusions, share)

    def remove_tree(self, path: Path) -> None:
        """Remove a tree and every half made one of that name."""
        removed_from(path, remove_apart)

    def clone_file(self, source: Path, target: Path) -> None:
        """Make `target` a copy of one file."""
        with built_at(target, remove_files, sweep=False) as partial:
            copy_tree.copy_file(source, partial, share)

    def estimate_bytes(self, source: Path, exclusions: Exclusions = NOTHING) -> int:
        """Return 0: blocks are shared."""
        return 0

    def exclusive_bytes(self, path: Path) -> int:
        """Return the bytes on disk that no other tree shares."""
        return disk_usage.exclusive_bytes(path)


def share(source: int, target: int, _status: os.stat_result) -> None:
    """Let the empty file `target` share all blocks of `source`."""
    fcntl.ioctl(target, _FICLONE, source)
