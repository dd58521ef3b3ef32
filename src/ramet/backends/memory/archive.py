"""The off-host archive of the backend in memory: it has everything at once, or says the problem that a test set."""

from dataclasses import dataclass, field
from datetime import datetime

from ramet.archive.layout import ARCHIVE_INCOMPLETE
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
    sending: set[str] = field(default_factory=set)
    object_bytes: int = 1000
    has_all_wal: bool = False

    def url(self) -> str | None:
        """Return where the archive is."""
        return self.location

    def is_needed(self) -> bool:
        """Say what a test has set."""
        return self.has_all_wal

    def maintain(self, server: Server, *, paused: bool, timeout_seconds: float) -> ArchiveState:
        """Take a base backup of a service that has none; everything else is there at once."""
        if self.fault is not None:
            raise self.fault
        now = self.memory.clock()
        bases = self.bases.setdefault(server.archive_name, [now])
        self.rows[server.archive_name] = tuple(self.memory.volume(server.service_id).rows)
        return ArchiveState(now, bases[-1], gaps=self.gaps.get(server.archive_name, []))

    def is_sending(self, server: Server) -> bool:
        """Tell what a test has set."""
        return server.service_id in self.sending

    def discard(self, server: Server, before: datetime) -> None:
        """Remove the base backups that no time from `before` on needs."""
        bases = self.bases.get(server.archive_name, [])
        older = [base for base in bases if base <= before]
        self.bases[server.archive_name] = [*older[-1:], *bases[len(older) :]]

    def remove(self, server: Server) -> None:
        """Forget the archive of a service."""
        self.bases.pop(server.archive_name, None)
        self.rows.pop(server.archive_name, None)

    def check(self, server: Server, budget_bytes: int) -> int:
        """Read the whole budget."""
        if self.fault is not None:
            raise self.fault
        self.checked.append((server.service_id, budget_bytes))
        return min(budget_bytes, self.object_bytes)

    def holdings(self, server: Server) -> Holdings:
        """Return the base backups."""
        if self.fault is not None:
            raise self.fault
        name = server.archive_name
        return Holdings([self._base(name, taken_at) for taken_at in self.bases.get(name, [])])

    def fetch(self, child: Server, source: Source, timeout_seconds: float) -> str | None:
        """Find all there at the second call."""
        if isinstance(self.fault, Unavailable):
            return str(self.fault)
        if child.service_id in self.memory.fetched or child.service_id in self.memory.volumes:
            return None
        parent = source.parent
        if source.base_backup_id not in [base.id for base in self.holdings(parent).base_backups]:
            raise Failed(ARCHIVE_INCOMPLETE, f"The archive has no base backup {source.base_backup_id}")
        rows = self.rows[parent.archive_name]
        self.memory.fetched[child.service_id] = rows
        return f"{len(rows) * ROW_BYTES / 1e6:.1f} MB from the off-host archive"

    def _base(self, name: str, taken_at: datetime) -> BaseBackup:
        rows = self.rows.get(name, ())
        before = [row for row in rows if row.committed_at <= taken_at]
        lsn, size_bytes = f"0/{len(before):X}", len(before) * ROW_BYTES
        base_id = f"{taken_at:%Y%m%dT%H%M%S%f}"
        wal_bytes = (len(rows) - len(before)) * ROW_BYTES
        return BaseBackup(base_id, taken_at, lsn, lsn, 1, size_bytes, size_bytes, wal_bytes, wal_bytes)
