"""A file that only takes space: it is removed when space is low, so that servers can write what frees more."""

import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_log = logging.getLogger(__name__)
_NAME = "reserve"


@dataclass(frozen=True)
class Reserve:
    """A reserve file in each of some directories: the disk below a sparse image may be full before the image is."""

    directories: Sequence[Path]

    def fill(self, size_bytes: int) -> bool:
        """Create the files that do not exist, and tell whether one was; without enough space there is no reserve."""
        was_created = False
        for directory in self.directories:
            path, partial = directory / _NAME, directory / f"{_NAME}.partial"
            if path.exists():
                continue
            try:
                with partial.open("wb") as file:
                    os.posix_fallocate(file.fileno(), 0, size_bytes)
                partial.rename(path)
                was_created = True
            except OSError as error:
                _log.debug("there is no reserve in %s: %s", directory, error)
                with contextlib.suppress(OSError):
                    partial.unlink(missing_ok=True)
        return was_created

    def release(self) -> None:
        """Remove the files, if they exist, and can be removed: services become read-only also where they cannot."""
        for directory in self.directories:
            try:
                (directory / _NAME).unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                _log.debug("the reserve in %s cannot be removed: %s", directory, error)
            else:
                _log.warning("removed the reserve in %s: the storage is nearly full", directory)
