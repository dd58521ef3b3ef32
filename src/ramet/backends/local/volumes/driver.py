"""What every way of copying a data directory offers. Three do: reflink, btrfs and copy.

A tree is one directory that can be cloned as a whole, a service's data directory for instance. What a tree holds is
the caller's business, and so is making its source consistent: only btrfs copies all of it at one instant.
"""

import fnmatch
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class CloneStatistics:
    """What a clone holds: regular files, and the sum of their sizes."""

    files: int
    size_bytes: int


@dataclass(frozen=True)
class Exclusions:
    """What a clone leaves out.

    `emptied` are directories, relative to the tree, that are made but stay empty. `names` are shell patterns; a file
    or directory whose name matches one of them is left out wherever it is.
    """

    emptied: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()

    def leaves_out(self, name: str) -> bool:
        """Say whether a file or directory of this name is left out."""
        return self._pattern is not None and self._pattern.match(name) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        return re.compile("|".join(fnmatch.translate(name) for name in self.names)) if self.names else None


NOTHING = Exclusions()


class Driver(Protocol):
    """One way of copying trees. No method flushes to disk: that is `system.sync_tree`, when the caller wants it."""

    @property
    def name(self) -> str:
        """Return reflink, btrfs or copy."""

    @property
    def atomic(self) -> bool:
        """Say whether a clone shows its source at one instant."""

    @property
    def shares_blocks(self) -> bool:
        """Say whether a clone costs no space until one side is written."""

    def describe(self) -> str:
        """Say in one sentence what a fork costs."""

    def create_tree(self, path: Path) -> None:
        """Make an empty tree, mode 0700, owned by the caller. Raises FileExistsError."""

    def clone_tree(self, source: Path, target: Path, exclusions: Exclusions = NOTHING) -> CloneStatistics:
        """Make `target` a copy of the tree `source`, with its modes and owners.

        The name `target` appears as the last act: a crash leaves at most a `<target>.partial-*`, which the next
        clone_tree or remove_tree of the same target removes. The source may be written meanwhile: files that vanish
        are passed over. Raises FileExistsError when the target exists, NotADirectoryError or FileNotFoundError when
        the source is no tree, Failed for symbolic links, Exhausted when there is no room.
        """

    def remove_tree(self, path: Path) -> None:
        """Remove a tree and every half made one of that name, and the trees inside it; nothing there is no error.

        Any directory will do: a service's own, with the trees that it holds.
        """

    def clone_file(self, source: Path, target: Path) -> None:
        """Make `target` a copy of one file; it appears whole or not at all. Raises FileExistsError.

        A crash may leave a `<target>.partial-*`, which goes away with the tree that it lies in.
        """

    def estimate_bytes(self, source: Path, exclusions: Exclusions = NOTHING) -> int:
        """Return what clone_tree would take from the pool now."""

    def exclusive_bytes(self, path: Path) -> int:
        """Return the bytes on disk that no other tree shares."""
