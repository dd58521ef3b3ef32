"""The life of servers in memory."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ramet.backends.interface.values import ExtensionUpdate, Maintenance, Observation, Readiness, Server
from ramet.backends.memory.volumes import KEPT_ENTRIES, MemoryPart, Volume
from ramet.errors import Unavailable
from ramet.model.passwords import Secret, is_password_of


class MemoryServers(MemoryPart):
    """Servers that only count; obeys ramet.backends.interface.servers.Servers."""

    def initialize(self, server: Server) -> None:
        with self._memory.lock:
            self._memory.volumes.setdefault(server.service_id, Volume())

    def start(self, server: Server, *, clients: bool = False, first: bool = False) -> None:
        with self._memory.lock:
            volume = self._memory.volume(server.service_id)
            if clients and not volume.secured:
                raise AssertionError("BUG: opened to clients before its credentials were set")
            if not volume.running:
                volume.running, volume.is_open, volume.starts_in = True, clients, self._memory.starts_after
                volume.parameters, volume.pending = dict(server.parameters), set()
                volume.host, volume.earlier_hosts = server.host, server.earlier_hosts

    def await_ready(self, server: Server, timeout_seconds: float) -> Readiness:
        """Count down to readiness."""
        with self._memory.lock:
            volume = self._memory.volume(server.service_id)
            if not volume.running:
                raise Unavailable("SERVER_KILLED", f"The server of service {server.service_id} was killed")
            volume.starts_in = max(0, volume.starts_in - 1)
            return Readiness(volume.starts_in == 0, str(volume.starts_in))

    def secure(self, server: Server, *, is_new: bool, neutralize: bool) -> dict[str, Any]:
        self._memory.running(server.service_id).secured = True
        return {"is_new": is_new, "neutralize": neutralize, **({"jobs": self._memory.jobs} if neutralize else {})}

    def open(self, server: Server) -> None:
        volume = self._memory.running(server.service_id)
        if not volume.secured:
            raise AssertionError("BUG: opened before it had its own credentials")
        volume.is_open = True
        volume.pooler_port = server.pooler_port
        if server.server_port is not None:
            self._memory.asleep[server.service_id] = False
            self._memory.waiting.discard(server.service_id)

    def resize(self, server: Server) -> bool:
        """Change CPU while it serves; more or less memory needs a restart."""
        volume = self._memory.volume(server.service_id)
        same_memory = volume.memory_gbs == server.size.memory_gbs
        volume.memory_gbs = server.size.memory_gbs
        return volume.running and same_memory

    def stop(self, server: Server) -> None:
        """Stop the server."""
        volume = self._memory.volume(server.service_id)
        volume.running = volume.is_open = False
        volume.pooler_port = volume.balancer_port = None
        self._memory.asleep.pop(server.service_id, None)

    def destroy(self, service_id: str) -> None:
        """Forget the service."""
        with self._memory.lock:
            self._memory.volumes.pop(service_id, None)
            self._memory.asleep.pop(service_id, None)
            self._memory.fetched.pop(service_id, None)

    def refresh(self, server: Server) -> bool:
        """Count it, and note the pooler; the first ones may leave something to be done."""
        running = self._memory.running(server.service_id)
        running.refreshes += 1
        running.pooler_port = server.pooler_port or running.pooler_port
        return running.refreshes > running.unfinished_refreshes

    def set_password(self, server: Server, verifier: Secret) -> None:
        """Keep the verifier."""
        self._memory.running(server.service_id).verifier = verifier

    def has_password(self, server: Server, password: Secret) -> bool | None:
        """Compare it with the verifier that was set last."""
        volume = self._memory.volumes.get(server.service_id)
        if volume is None or not volume.running:
            return None
        return is_password_of(password, volume.verifier or server.verifier)

    def update_extensions(self, server: Server, name: str | None) -> Sequence[ExtensionUpdate] | None:
        """Update what is outdated here; besides that there is plpgsql."""
        self._memory.running(server.service_id)
        if name not in (None, "plpgsql", *(each.extension for each in self._memory.outdated)):
            return None
        return [each for each in self._memory.outdated if name in (None, each.extension)]

    def inspect(self, server: Server) -> Observation:
        """Tell whether a server is running, and open to clients."""
        volume = self._memory.volumes.get(server.service_id)
        if volume is None or not volume.has_data:
            return Observation(False, "Its volume is lost.", is_lost=True)
        if not volume.running:
            return Observation(False, "Its server is not running.", volume.follows)
        reason = "" if volume.is_open else "Its server turns clients away."
        return Observation(True, reason, volume.follows, is_closed=not volume.is_open)

    def set_read_only(self, server: Server, *, read_only: bool) -> None:
        """Note it; a server that does not run raises."""
        self._memory.volume(server.service_id).held = read_only
        self._memory.running(server.service_id)

    def maintain(self, server: Server, budget_seconds: float, now: datetime) -> Maintenance:
        """Keep the newest entries of the log; return what a test has set."""
        volume = self._memory.volume(server.service_id)
        del volume.log[:-KEPT_ENTRIES]
        return Maintenance(volume.archive_delay)
