"""The off-host archive of the backend in memory: it has everything at once, or says the problem that a test set."""

from dataclasses import dataclass, field
from datetime import datetime

from ramet.backends.interface.archive import ArchiveState
from ramet.backends.interface.values import BaseBackup, Holdings, Server, Source
from ramet.backends.memory.volumes import ROW_BYTES, Memory, Row
from ramet.errors import Error, Failed, Unavailable
from ramet.model.gaps import Gap


@dataclass
class MemoryArchive:
    """Obeys ramet.backends.interface.archive.Archive. `fault` is raised where it is set."""

    memory: Memory
    location: str | None = None
    fault: Error | None = None
    bases: dict[str, list[datetime]] = field(default_factory=dict)
    rows: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    gaps: dict[str, list[Gap]] = field(default_factory=dict)
    checked: list[tuple[str, int]] = field(default_factory=list)
    object_bytes: int = 1000

    def url(self) -> str | None:
        """Return where the archive is."""
        return self.location

    def maintain(self, server: Server, *, paused: bool, timeout_seconds: float) -> ArchiveState:
        """Take a base backup of a service that has none; everything else is there at once."""
        if self.fault is not None:
            raise self.fault
        now = self.memory.clock()
        bases = self.bases.setdefault(server.service_id, [now])
        self.rows[server.service_id] = tuple(self.memory.volume(server.service_id).rows)
        return ArchiveState(now, bases[-1], gaps=self.gaps.get(server.service_id, []))

    def discard(self, service_id: str, before: datetime) -> None:
        """Remove the base backups that no time from `before` on needs."""
        bases = self.bases.get(service_id, [])
        older = [base for base in bases if base <= before]
        self.bases[service_id] = [*older[-1:], *bases[len(older) :]]

    def remove(self, service_id: str) -> None:
        """Forget the archive of a service."""
        self.bases.pop(service_id, None)
        self.rows.pop(service_id, None)

    def check(self, service_id: str, budget_bytes: int) -> int:
        """Read the whole budget."""
        if self.fault is not None:
            raise self.fault
        self.checked.append((service_id, budget_bytes))
        return min(budget_bytes, self.object_bytes)

    def holdings(self, service_id: str) -> Holdings:
        """Return the base backups."""
        if self.fault is not None:
            raise self.fault
        return Holdings([self._base(service_id, taken_at) for taken_at in self.bases.get(service_id, [])])

    def fetch(self, child: Server, source: Source, timeout_seconds: float) -> str | None:
        """Find all there at the second call."""
        if isinstance(self.fault, Unavailable):
            return str(self.fault)
        if child.service_id in self.memory.fetched or child.service_id in self.memory.volumes:
            return None
        parent_id = source.parent.service_id
        if source.base_backup_id not in [base.id for base in self.holdings(parent_id).base_backups]:
            raise Failed("ARCHIVE_INCOMPLETE", f"The archive has no base backup {source.base_backup_id}")
        rows = self.rows[parent_id]
        self.memory.fetched[child.service_id] = rows
        return f"{len(rows) * ROW_BYTES / 1e6:.1f} MB from the off-host archive"

    def _base(self, service_id: str, taken_at: datetime) -> BaseBackup:
        rows = self.rows.get(service_id, ())
        before = [row for row in rows if row.committed_at <= taken_at]
        lsn, size_bytes = f"0/{len(before):X}", len(before) * ROW_BYTES
        base_id = f"{taken_at:%Y%m%dT%H%M%S%f}"
        wal_bytes = (len(rows) - len(before)) * ROW_BYTES
        return BaseBackup(base_id, taken_at, lsn, lsn, 1, size_bytes, size_bytes, wal_bytes, wal_bytes)
