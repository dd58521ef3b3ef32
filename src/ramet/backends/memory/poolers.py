"""Poolers in memory: their ports are noted."""

from collections.abc import Sequence

from ramet.backends.interface.values import Server, Sessions
from ramet.backends.memory.volumes import MemoryPart
from ramet.errors import Invalid


class MemoryPoolers(MemoryPart):
    """Poolers that are only noted; obeys ramet.backends.interface.poolers.Poolers."""

    def check(self) -> str:
        """Have poolers that keep prepared statements."""
        return ""

    def check_database(self, server: Server) -> None:
        """Raise Invalid where a test has taken the database away."""
        if not self._memory.volume(server.service_id).has_database:
            raise Invalid("DATABASE_MISSING", f"Service {server.service_id} has no database tsdb")

    def start(self, servers: Sequence[Server], port: int) -> None:
        """Note the pooler's port."""
        if not all(self._memory.volume(server.service_id).is_open for server in servers):
            raise AssertionError("BUG: a pooler before servers that are not open")
        self._memory.volume(servers[0].service_id).pooler_port = port

    def stop(self, service_id: str) -> None:
        """Forget the pooler."""
        if service_id in self._memory.volumes:
            self._memory.volumes[service_id].pooler_port = None

    def serves(self, service_id: str) -> bool:
        """Tell whether there is a pooler."""
        return self._memory.volume(service_id).pooler_port is not None

    def sessions(self, server: Server) -> Sessions | None:
        """Return what a test has set."""
        volume = self._memory.volume(server.service_id)
        return volume.sessions if volume.running else None
