"""What all parts of the local backend work with."""

from dataclasses import dataclass

from ramet.backends.local.server.servers import Servers
from ramet.backends.local.volumes.pool import Pool
from ramet.errors import Exhausted

_WAL_BYTES = 64 * 1024**2


@dataclass(frozen=True)
class Host:
    """The storage and the servers of one data root."""

    pool: Pool
    servers: Servers

    def check_wal_room(self) -> None:
        """Raise Exhausted where a server that is made to begin a WAL segment could fail: it would go down."""
        free = self.pool.free_bytes()
        if free < _WAL_BYTES:
            raise Exhausted(
                "NOT_ENOUGH_DISK",
                f"The storage has no room: {free // 1024**2} MiB are left",
                f"Delete services that are not needed, or enlarge the storage at {self.pool.path}.",
            )
