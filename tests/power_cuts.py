"""Power cuts: they take back what a SQLite store has written since its last flush, and nothing that steps have done."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import sqlalchemy as sa

from ramet.store.tables import operation
from tests.worlds import World


class Disk:
    """What the disk of a world has of its store, from now on. What its volumes have is flushed at once.

    With `has_all` so is each write of the store, as others may flush right after it.
    """

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, *, has_all: bool = False) -> None:
        self._world = world
        self._has_all = has_all
        self._path = str(world.store.engine.url.database)
        if has_all:
            return
        self._flushed = sqlite3.connect(":memory:")
        self._flush()
        write = world.store.write

        @contextmanager
        def flushing(*, durable: bool = True, early: bool = False, patient: bool = False) -> Iterator[sa.Connection]:
            with write(durable=durable, early=early, patient=patient) as tx:
                yield tx
            if durable:
                self._flush()

        monkeypatch.setattr(world.store, "write", flushing)

    def cut_power(self) -> None:
        """Take back what was not flushed, stop all servers, and end all leases, as the next start of Ramet does."""
        if not self._has_all:
            with closing(sqlite3.connect(self._path)) as target:
                self._flushed.backup(target)
        for volume in self._world.backend.volumes.values():
            volume.running = volume.is_open = False
        with self._world.store.write() as tx:
            tx.execute(operation.update().values(run_at=0.0))

    def _flush(self) -> None:
        with closing(sqlite3.connect(self._path)) as source:
            source.backup(self._flushed)
