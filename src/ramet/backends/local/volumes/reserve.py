"""A file that only takes room: it is removed at shortage, so that servers can still write what frees more."""

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
    """One such file in each of some directories: where a sparse image lies, the disk below it may be full first."""

    directories: Sequence[Path]

    def fill(self, size_bytes: int) -> None:
        """Take the room unless it is taken; where that cannot be done there is no reserve."""
        for directory in self.directories:
            path, partial = directory / _NAME, directory / f"{_NAME}.partial"
            if path.exists():
                continue
            try:
                with partial.open("wb") as file:
                    os.posix_fallocate(file.fileno(), 0, size_bytes)
                partial.rename(path)
            except OSError as error:
                _log.debug("there is no reserve in %s: %s", directory, error)
                with contextlib.suppress(OSError):
                    partial.unlink(missing_ok=True)

    def release(self) -> None:
        """Give the room back, if it is taken."""
        for directory in self.directories:
            with contextlib.suppress(FileNotFoundError):
                (directory / _NAME).unlink()
                _log.warning("the reserve in %s is given back: the storage is nearly full", directory)
