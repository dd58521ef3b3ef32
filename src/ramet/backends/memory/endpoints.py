"""Endpoints in memory: who waits is what a test says."""

from collections.abc import Sequence

from ramet.backends.interface.values import Server
from ramet.backends.memory.volumes import MemoryPart


class MemoryEndpoints(MemoryPart):
    """Endpoints that only count; obeys ramet.backends.interface.endpoints.Endpoints."""

    def check(self) -> None:
        """Have everything that is needed."""

    def fall_asleep(self, server: Server) -> bool:
        volume = self._memory.volume(server.service_id)
        if volume.sessions.count and volume.running:
            return False
        volume.running, volume.is_open = False, False
        self._memory.asleep[server.service_id] = True
        return True

    def readdress(self, server: Server) -> bool:
        """Note the host while it serves; from or to localhost it must be restarted."""
        volume = self._memory.volume(server.service_id)
        same_listening = (volume.host == "localhost") == (server.host == "localhost")
        if volume.running and same_listening:
            volume.host, volume.earlier_hosts = server.host, server.earlier_hosts
        return volume.running and same_listening

    def serve(self, server: Server) -> None:
        self._memory.asleep[server.service_id] = False
        self._memory.waiting.discard(server.service_id)

    def keep(self, awake: Sequence[Server], asleep: Sequence[Server]) -> None:
        for is_asleep, servers in ((False, awake), (True, asleep)):
            for server in servers:
                self._memory.asleep.setdefault(server.service_id, is_asleep)

    def list_open(self) -> Sequence[str]:
        return sorted(self._memory.asleep)

    def close(self, service_id: str) -> None:
        self._memory.asleep.pop(service_id, None)

    def refuse(self, service_id: str, message: str, hint: str) -> None:
        self._memory.waiting.discard(service_id)
        self._memory.refused.append((service_id, f"{message} {hint}".strip()))

    def waiting(self, timeout_seconds: float) -> Sequence[str]:
        return sorted(one for one in self._memory.waiting if self._memory.asleep.get(one))
