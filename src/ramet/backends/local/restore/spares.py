"""Spare copies of a tree, made in advance: the next fork only has to move one.

A spare is never flushed to disk, and is valid only until the host is rebooted.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ramet.backends.interface.values import MOST_SPARES
from ramet.backends.local.volumes.driver import Driver
from ramet.machine.processes import boot_id


@dataclass(frozen=True)
class Spares:
    """The spare copies of `tree`, which are beside it. Their names begin with `prefix`."""

    tree: Path
    prefix: str

    def add(self, driver: Driver, wanted: int) -> str | None:
        """Create one more spare if moving is faster than copying, and remove invalid ones; say how many are missing."""
        places = self._places()
        self.drop(driver, besides=places)
        missing = [] if driver.atomic else [place for place in places[:wanted] if not place.exists()]
        if missing:
            driver.clone_tree(self.tree, missing[0])
        return f"{len(missing) - 1} of {wanted} spare copies are still to be created" if len(missing) > 1 else None

    def drop(self, driver: Driver, besides: Sequence[Path] = ()) -> None:
        """Remove the spares, except those `besides`."""
        for path in self.tree.parent.glob(f"{self.prefix}*"):
            if path not in besides:
                driver.remove_tree(path)

    def take(self, driver: Driver, data: Path) -> None:
        """Fill the new tree `data`: move a spare, or copy the tree. Raises FileNotFoundError when it is gone."""
        for spare in self._places():
            try:
                spare.rename(data)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno == errno.EXDEV:  # the fork has another quota
                    break
                raise
            else:
                return
        driver.clone_tree(self.tree, data)

    def _places(self) -> list[Path]:
        return [self.tree.with_name(f"{self.prefix}{boot_id()}-{number}") for number in range(MOST_SPARES)]
