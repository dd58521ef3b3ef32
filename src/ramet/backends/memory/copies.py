"""Copies over the network in memory: rows are copied anyway."""

from ramet.backends.interface.values import Server, Source
from ramet.backends.memory.volumes import ROW_BYTES, MemoryPart


class MemoryCopies(MemoryPart):
    """Copies as far as a test wants them; obeys ramet.backends.interface.copies.Copies."""

    def are_needed(self) -> bool:
        """Need them when a test says so."""
        return not self._memory.takes_snapshots

    def size_bytes(self, source: Source) -> int | None:
        """Return the size of the rows of a fork of now."""
        if self._memory.takes_snapshots or source.base_backup_id is not None:
            return None
        return len(self._memory.volume(source.parent.service_id).rows) * ROW_BYTES

    def make(self, child: Server, source: Source) -> str | None:
        """Leave it to `capture`."""
