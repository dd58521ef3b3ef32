"""What servers elsewhere read of servers in memory."""

from ramet.backends.interface.replication import ReplicationSlot, ReplicationSlots, Trust
from ramet.backends.interface.values import Server
from ramet.backends.memory.volumes import MemoryPart
from ramet.model.passwords import Secret
from ramet.model.wal_level import WalLevel

_LIMIT_BYTES = 4 * 1024**3


class MemoryReplication(MemoryPart):
    """Slots that a test makes; obeys ramet.backends.interface.replication.Replication."""

    def slots(self, server: Server, *, reads_volume: bool = True) -> ReplicationSlots:
        """Return the slots of a volume; of a stopped one their names."""
        volume = self._memory.volume(server.service_id)
        names = sorted(volume.slots)
        if not volume.running:
            return ReplicationSlots(None, [ReplicationSlot(name) for name in names])
        known = [ReplicationSlot(name, "pgoutput", "tsdb", False, "reserved", 0) for name in names]
        return ReplicationSlots(_LIMIT_BYTES, known)

    def commit_mark(self, server: Server) -> str | None:
        """Count the rows of a running server that is no standby."""
        volume = self._memory.volume(server.service_id)
        return f"{volume.timeline} {len(volume.rows)}" if volume.running and server.upstream is None else None

    def permit(self, server: Server) -> None:
        """Note it."""
        self._memory.running(server.service_id).replicates = server.wal_level is WalLevel.LOGICAL

    def admit_copy(self, server: Server, verifier: Secret) -> str:
        """Note it."""
        self._memory.running(server.service_id).copied_by = verifier
        return "pg_ramet_mover"

    def hasten_copy(self, server: Server) -> None:
        """Have no checkpoints."""

    def refuse_copy(self, server: Server) -> None:
        """Forget it; a service that is gone has none."""
        volume = self._memory.volumes.get(server.service_id)
        if volume is not None:
            volume.copied_by = None

    def trust(self, server: Server) -> Trust | None:
        """Have no certificates."""
        return None

    def end_lsn(self, server: Server) -> str | None:
        """Count the rows of a stopped server."""
        volume = self._memory.volume(server.service_id)
        return None if volume.running else f"0/{len(volume.rows):X}"

    def unlogged_tables(self, server: Server) -> list[str]:
        """Return those that a test has named."""
        return list(self._memory.running(server.service_id).unlogged)
