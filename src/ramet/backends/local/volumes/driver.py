"""The interface of the three storage drivers: reflink, btrfs and copy.

A tree is a directory that is cloned as a whole, for instance a data directory. The caller must ensure that the source
is consistent: only btrfs clones a tree atomically.
"""

import fnmatch
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class CloneStatistics:
    """The number of regular files in a clone, and the sum of their sizes."""

    files: int
    size_bytes: int


@dataclass(frozen=True)
class Exclusions:
    """The files and directories that a clone does not contain.

    `emptied` are directories, relative to the tree, that are empty in the clone. `names` are shell patterns: a file or
    directory whose name matches one of them is excluded anywhere in the tree.
    """

    emptied: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()

    def leaves_out(self, name: str) -> bool:
        """Tell whether a file or directory of this name is excluded."""
        return self._pattern is not None and self._pattern.match(name) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        return re.compile("|".join(fnmatch.translate(name) for name in self.names)) if self.names else None


NOTHING = Exclusions()


class Driver(Protocol):
    """One way of copying trees. No method flushes to disk: the caller uses `flush.flush_tree`."""

    @property
    def name(self) -> str:
        """Return reflink, btrfs or copy."""

    @property
    def atomic(self) -> bool:
        """Tell whether a clone is atomic."""

    @property
    def shares_blocks(self) -> bool:
        """Tell whether a clone takes no space until one side is written."""

    def describe(self) -> str:
        """Say in one sentence what a fork costs."""

    def create_tree(self, path: Path) -> None:
        """Make an empty tree, mode 0700, owned by the caller. Raises FileExistsError."""

    def clone_tree(self, source: Path, target: Path, exclusions: Exclusions = NOTHING) -> CloneStatistics:
        """Make `target` a copy of the tree `source`, with its modes and owners.

        The name `target` appears as the last act: a crash leaves at most a `<target>.partial-*`, which the next
        clone_tree or remove_tree of the same target removes. The source may be written to during the copy: files that
        disappear are skipped. Raises FileExistsError when the target exists, NotADirectoryError or FileNotFoundError
        when the source is no tree, Failed for symbolic links, Exhausted when there is not enough space.
        """

    def remove_tree(self, path: Path) -> None:
        """Remove a tree, the trees inside it and every incomplete one of that name; nothing to remove is no error.

        It may be any directory, for instance a service's directory with its trees.
        """

    def clone_file(self, source: Path, target: Path) -> None:
        """Make `target` a copy of one file, atomically. Raises FileExistsError.

        A crash may leave a `<target>.partial-*`, which is removed with its tree.
        """

    def estimate_bytes(self, source: Path, exclusions: Exclusions = NOTHING) -> int:
        """Return the bytes that clone_tree would take from the pool now."""

    def exclusive_bytes(self, path: Path) -> int:
        """Return the bytes on disk that no other tree shares."""
