"""Read replicas in memory: they show the rows of their primary."""

from collections.abc import Sequence

from ramet.backends.interface.values import Server
from ramet.backends.memory.volumes import MemoryPart, Volume


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
