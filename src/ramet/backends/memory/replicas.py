"""Read replicas in memory: they show the rows of their primary."""

from collections.abc import Sequence

from ramet.backends.interface.replicas import refuse_standbys
from ramet.backends.interface.values import Server
from ramet.backends.memory.volumes import MemoryPart, Volume
from ramet.model.high_availability import Standbys


class MemoryReplicas(MemoryPart):
    """Replicas that share rows; obeys ramet.backends.interface.replicas.Replicas."""

    def check_room(self, primary: Server) -> None:
        """Find room for every replica."""

    def create(self, replica: Server) -> bool:
        """Make a volume that shows the rows of its primary."""
        if replica.primary is None:
            raise AssertionError("BUG: a replica without a primary")
        with self._memory.lock:
            primary = self._memory.volume(replica.primary.service_id)
            if primary.running:
                self._memory.volumes.setdefault(replica.service_id, Volume(rows=primary.rows, secured=True))
            return primary.running

    def start_balancer(self, servers: Sequence[Server], port: int) -> None:
        """Note the balancer's port."""
        self._memory.volume(servers[0].service_id).balancer_port = port

    def balancer_serves(self, service_id: str) -> bool:
        """Tell whether there is a balancer."""
        return self._memory.volume(service_id).balancer_port is not None

    def check_standbys(self, standbys: Standbys) -> None:
        """Have one host, unless a test has given it more."""
        if not self._memory.has_standbys:
            refuse_standbys(standbys)

    def set_standbys(self, server: Server, timeout_seconds: float) -> str | None:
        """Note the standbys; they follow with the next call."""
        volume = self._memory.volume(server.service_id)
        if volume.standbys == server.standbys:
            return None
        volume.standbys = server.standbys
        return f"{server.standbys.count} standbys begin to follow"
