"""The off-host archive of the backend in memory: it has everything at once, or says the problem that a test set."""

from dataclasses import dataclass, field
from datetime import datetime

from ramet.backends.interface.archive import ArchiveState
from ramet.backends.interface.values import Server
from ramet.backends.memory.volumes import Memory
from ramet.errors import Error


@dataclass
class MemoryArchive:
    """Obeys ramet.backends.interface.archive.Archive. `fault` is raised where it is set."""

    memory: Memory
    location: str | None = None
    fault: Error | None = None
    bases: dict[str, list[datetime]] = field(default_factory=dict)

    def url(self) -> str | None:
        """Return where the archive is."""
        return self.location

    def maintain(self, server: Server, *, paused: bool, timeout_seconds: float) -> ArchiveState:
        """Take a base backup of a service that has none; everything else is there at once."""
        if self.fault is not None:
            raise self.fault
        now = self.memory.clock()
        bases = self.bases.setdefault(server.service_id, [now])
        return ArchiveState(now, bases[-1])

    def discard(self, service_id: str, before: datetime) -> None:
        """Remove the base backups that no time from `before` on needs."""
        bases = self.bases.get(service_id, [])
        older = [base for base in bases if base <= before]
        self.bases[service_id] = [*older[-1:], *bases[len(older) :]]
