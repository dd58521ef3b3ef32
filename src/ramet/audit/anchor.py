"""The newest entry of the audit, noted in a file outside of the store: so entries removed from its end are missed."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from ramet.machine.partial_files import partial_of
from ramet.store import audit
from ramet.store.database import Store

_MOST = 1000


class Anchor(Struct, frozen=True):
    """An entry that the chain had at some time."""

    sequence: int
    link: str


@dataclass(frozen=True)
class Anchors:
    """The file of anchors in the data directory, one a line, the newest last. `locked` lets one note at a time."""

    path: Path
    locked: Callable[[], AbstractContextManager[None]]

    def read(self) -> list[Anchor]:
        """Return the anchors; a line that a crash cut off is none."""
        if not self.path.exists():
            return []
        found = []
        for line in self.path.read_bytes().splitlines():
            try:
                found.append(msgspec.json.decode(line, type=Anchor))
            except msgspec.DecodeError:
                continue
        return found

    def note(self, store: Store) -> None:
        """Note the newest entry, unless it is noted already, or the store has lost entries that were noted."""
        with store.read(settled=True) as tx:
            sequence, link = audit.head(tx)
        with self.locked():
            known = self.read()
            if sequence and (not known or known[-1].sequence < sequence):
                self._write([*known[-_MOST:], Anchor(sequence, link)])

    def reset(self) -> None:
        """Forget all anchors: the chain goes on from where the store has it, such as after a restore of a backup."""
        self._write([])

    def _write(self, anchors: list[Anchor]) -> None:
        partial = partial_of(self.path)
        with partial.open("wb") as file:
            file.writelines(msgspec.json.encode(anchor) + b"\n" for anchor in anchors)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)
