"""A complete backend without a host: services are lists of committed rows.

It obeys the same contract as the real ones, so that procedures, control and API can be tried in milliseconds.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from ramet.backends.memory.admission import MemoryAdmission
from ramet.backends.memory.archive import MemoryArchive
from ramet.backends.memory.copies import MemoryCopies
from ramet.backends.memory.endpoints import MemoryEndpoints
from ramet.backends.memory.followers import MemoryFollowers
from ramet.backends.memory.host import MemoryHost
from ramet.backends.memory.insight import MemoryInsight
from ramet.backends.memory.logins import MemoryLogins
from ramet.backends.memory.parameters import MemoryParameters
from ramet.backends.memory.poolers import MemoryPoolers
from ramet.backends.memory.replacements import MemoryReplacements
from ramet.backends.memory.replicas import MemoryReplicas
from ramet.backends.memory.replication import MemoryReplication
from ramet.backends.memory.restore import MemoryRestore
from ramet.backends.memory.servers import MemoryServers
from ramet.backends.memory.sources import MemorySources
from ramet.backends.memory.subscriptions import MemorySubscriptions
from ramet.backends.memory.upgrades import MemoryUpgrades
from ramet.backends.memory.volumes import Memory, Row
from ramet.errors import Failed


class MemoryBackend(Memory):
    """Keeps services in memory; obeys ramet.backends.interface.backend.Backend."""

    authority = ""

    def __init__(self, starts_after: int = 0, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        super().__init__(starts_after, clock)
        self.servers = MemoryServers(self)
        self.restore = MemoryRestore(self)
        self.copies = MemoryCopies(self)
        self.replicas = MemoryReplicas(self)
        self.poolers = MemoryPoolers(self)
        self.endpoints = MemoryEndpoints(self)
        self.archive = MemoryArchive(self)
        self.sources = MemorySources(self)
        self.subscriptions = MemorySubscriptions(self, self.sources)
        self.admission = MemoryAdmission(self)
        self.logins = MemoryLogins(self)
        self.replication = MemoryReplication(self)
        self.insight = MemoryInsight(self)
        self.parameters = MemoryParameters(self)
        self.upgrades = MemoryUpgrades(self)
        self.followers = MemoryFollowers(self)
        self.replacements = MemoryReplacements(self)
        self.host = MemoryHost(self)

    def close(self) -> None:
        """Nothing is open."""

    def commit(self, service_id: str, value: str) -> Row:
        """Commit a row in a serving service, as a client would."""
        with self.lock:
            row, volume = Row(self.clock(), value), self.serving(service_id)
            if volume.held:
                raise Failed("READ_ONLY", f"Service {service_id} is read-only")
            volume.rows.append(row)
            return row

    def values(self, service_id: str) -> list[str]:
        """Return the values of all rows, as a client would read them."""
        with self.lock:
            return [row.value for row in self.serving(service_id).rows]

    def crash(self, service_id: str) -> None:
        """End the server of a service as a fault would."""
        self.volumes[service_id].running = False
