"""A complete backend without a host: services are lists of committed rows.

It obeys the same contract as the real ones, so that procedures, control and API can be tried in milliseconds.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ramet.backends.base import (
    Capture,
    ExtensionUpdate,
    Observation,
    Readiness,
    Recovery,
    Server,
    SnapshotFacts,
    Source,
)
from ramet.errors import Failed, Invalid, Unavailable
from ramet.model.credentials import Secret, is_password_of
from ramet.model.logs import LogEntry, LogPage, LogQuery
from ramet.model.resources import Size
from ramet.model.service import ServiceType
from ramet.model.snapshot import Snapshot
from ramet.model.window import Gap

_ROW_BYTES = 100


@dataclass(frozen=True)
class Row:
    """One committed transaction."""

    committed_at: datetime
    value: str


KEPT_ENTRIES = 2000


@dataclass
class Volume:
    """What a service has on this imaginary host."""

    rows: list[Row] = field(default_factory=list)
    snapshots: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    backups: int = 0
    running: bool = False
    is_open: bool = False
    secured: bool = False
    renewals: int = 0
    unfinished_renewals: int = 0
    starts_in: int = 0
    verifier: Secret | None = None
    memory_gbs: int | None = None
    log: list[LogEntry] = field(default_factory=list)
    measured: dict[str, float] = field(default_factory=dict)
    pooler_port: int | None = None
    has_database: bool = True
    balancer_port: int | None = None
    follows: bool = True
    gaps: list[Gap] = field(default_factory=list)
    damage: str = ""
    archive_delay: str | None = None
    held: bool = False


class MemoryBackend:
    """Keeps services in memory. `starts_after` is how many times a starting server is found not ready yet."""

    name = "memory"

    def __init__(self, starts_after: int = 0, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.volumes: dict[str, Volume] = {}
        self.short_of_room: str | None = None
        self.short_of_quota: dict[str, str] = {}
        self.jobs: list[str] = []
        self.outdated: list[ExtensionUpdate] = []
        self._starts_after = starts_after
        self._clock = clock
        self._lock = threading.RLock()

    def commit(self, service_id: str, value: str) -> Row:
        """Commit a row in a serving service, as a client would."""
        with self._lock:
            row = Row(self._clock(), value)
            self._serving(service_id).rows.append(row)
            return row

    def values(self, service_id: str) -> list[str]:
        """Return the values of all rows, as a client would read them."""
        with self._lock:
            return [row.value for row in self._serving(service_id).rows]

    def crash(self, service_id: str) -> None:
        """End the server of a service as a fault would."""
        self.volumes[service_id].running = False

    def host_size(self) -> Size:
        """Return a host of 16 cores and 64 GB."""
        return Size(16000, 64)

    def default_pg_major(self, service_type: ServiceType) -> int:
        """Return the PostgreSQL major version of new services of a type."""
        return 18

    def has_tls(self, pg_major: int) -> bool:
        """Claim TLS for every version."""
        return True

    def volume_type(self) -> str:
        """Return the storage driver's name."""
        return "memory"

    def check_service_type(self, service_type: ServiceType, pg_major: int) -> None:
        """Accept every type."""

    def check_room(self, source: Source | None) -> None:
        """Find room for everything."""

    def port_is_free(self, port: int) -> bool:
        """Find every port free."""
        return True

    def describe(self) -> Sequence[tuple[str, str]]:
        """Say that nothing here is real."""
        return [("backend", "memory: services are lists of rows, for trying the control plane out")]

    def initialize(self, server: Server) -> None:
        """Make an empty volume."""
        with self._lock:
            self.volumes.setdefault(server.service_id, Volume())

    def capture(self, child: Server, source: Source) -> Capture | None:
        """Copy the rows that the source names."""
        with self._lock:
            parent = self.volumes[source.parent.service_id]
            if not parent.running and not source.paused:
                return None
            if child.service_id not in self.volumes:
                self.volumes[child.service_id] = Volume(rows=_rows_of(parent, source), damage=parent.damage)
            rows = self.volumes[child.service_id].rows
            return Capture(
                source.target, {"rows": len(rows), "timeline": 1, "end_lsn": _lsn(len(rows) + parent.backups)}
            )

    def recover(self, child: Server, capture: Capture, patience_seconds: float) -> Recovery:
        """Prove that no row lies beyond the target."""
        rows = self._volume(child.service_id).rows
        if capture.recover_to is not None and any(row.committed_at > capture.recover_to for row in rows):
            raise Failed("WRONG_STOP_POINT", "Recovery went beyond the target")
        return Recovery({"rows": len(rows)})

    def start(self, server: Server, *, first: bool = False) -> None:
        """Start the server, closed to clients."""
        with self._lock:
            volume = self._volume(server.service_id)
            if not volume.running:
                volume.running, volume.is_open, volume.starts_in = True, False, self._starts_after

    def resume(self, server: Server) -> None:
        """Start the server, open to clients."""
        with self._lock:
            volume = self._volume(server.service_id)
            if not volume.secured:
                raise AssertionError("BUG: resumed without credentials of its own")
            if not volume.running:
                volume.running, volume.is_open, volume.starts_in = True, True, self._starts_after

    def await_ready(self, server: Server, patience_seconds: float) -> Readiness:
        """Count down to readiness."""
        with self._lock:
            volume = self._volume(server.service_id)
            if not volume.running:
                raise Unavailable("SERVER_KILLED", f"The server of service {server.service_id} was killed")
            volume.starts_in = max(0, volume.starts_in - 1)
            return Readiness(volume.starts_in == 0, str(volume.starts_in))

    def shortage(self, *, lasting: bool) -> str | None:
        """Say what the test has set."""
        return self.short_of_room

    def quota_shortage(self, server: Server, *, lasting: bool) -> str | None:
        """Say what the test has set for the service."""
        return self.short_of_quota.get(server.service_id)

    def hold_writes(self, server: Server, *, held: bool) -> None:
        """Note it; a server that does not run is not told."""
        self._volume(server.service_id).held = held
        self._running(server.service_id)

    def secure(self, server: Server, *, newborn: bool, quiet: bool) -> dict[str, Any]:
        """Give the server its own credentials."""
        self._running(server.service_id).secured = True
        return {"newborn": newborn, "quiet": quiet, **({"jobs": self.jobs} if quiet else {})}

    def heed_readers(self, server: Server) -> None:
        """Find no marked roles."""

    def renew(self, server: Server) -> bool:
        """Count it; the first ones may leave something to be done."""
        running = self._running(server.service_id)
        running.renewals += 1
        return running.renewals > running.unfinished_renewals

    def examine(self, child: Server, parent_id: str | None) -> dict[str, Any]:
        """Find nothing that did not come along."""
        return {"unlogged_tables": []}

    def analyze(self, server: Server, patience_seconds: float) -> str | None:
        """Have no statistics."""
        return "collected"

    def check_data(self, server: Server, patience_seconds: float) -> str | None:
        """Complain of what a test has damaged."""
        return self._volume(server.service_id).damage

    def tend_archive(self, service_id: str) -> str | None:
        """Say what a test has put there."""
        return self._volume(service_id).archive_delay

    def walk_archive(self, service_id: str, after: str) -> str | None:
        """Have no archive to walk over."""
        return None

    def open(self, server: Server) -> None:
        """Let clients in."""
        volume = self._running(server.service_id)
        if not volume.secured:
            raise AssertionError("BUG: opened before it had its own credentials")
        volume.is_open = True
        volume.pooler_port = server.pooler_port

    def update_extensions(self, server: Server, name: str | None) -> Sequence[ExtensionUpdate]:
        """Update what is outdated here."""
        self._running(server.service_id)
        return [each for each in self.outdated if name in (None, each.extension)]

    def check_extensions(self, server: Server, moment: datetime) -> None:
        """Find every library."""

    def set_password(self, server: Server, verifier: Secret) -> None:
        """Keep the verifier."""
        self._serving(server.service_id).verifier = verifier

    def has_password(self, server: Server, password: Secret) -> bool:
        """Compare it with the verifier that was set last."""
        volume = self.volumes.get(server.service_id)
        if volume is None or not volume.running:
            return False
        return is_password_of(password, volume.verifier or server.verifier)

    def resize(self, server: Server) -> bool:
        """Change CPU while it serves; more or less memory needs a restart."""
        volume = self._volume(server.service_id)
        same_memory = volume.memory_gbs == server.size.memory_gbs
        volume.memory_gbs = server.size.memory_gbs
        return volume.running and same_memory

    def stop(self, server: Server) -> None:
        """Stop the server."""
        volume = self._volume(server.service_id)
        volume.running = volume.is_open = False
        volume.pooler_port = volume.balancer_port = None

    def destroy(self, service_id: str) -> None:
        """Forget the service."""
        with self._lock:
            self.volumes.pop(service_id, None)

    def check_pooled_database(self, server: Server) -> None:
        """Raise Invalid where a test has taken the database away."""
        if not self._volume(server.service_id).has_database:
            raise Invalid("DATABASE_MISSING", f"Service {server.service_id} has no database tsdb")

    def check_pooler(self) -> str:
        """Have poolers that keep prepared statements."""
        return ""

    def replicate(self, replica: Server) -> bool:
        """Make a volume that shows the rows of its primary."""
        if replica.primary is None:
            raise AssertionError("BUG: a replica without a primary")
        with self._lock:
            primary = self._volume(replica.primary.service_id)
            if primary.running:
                self.volumes.setdefault(replica.service_id, Volume(rows=primary.rows, secured=True))
            return primary.running

    def start_balancer(self, servers: Sequence[Server], port: int) -> None:
        """Note the balancer's port."""
        self._volume(servers[0].service_id).balancer_port = port

    def balancer_serves(self, service_id: str) -> bool:
        """Tell whether there is a balancer."""
        return self._volume(service_id).balancer_port is not None

    def start_pooler(self, servers: Sequence[Server], port: int) -> None:
        """Note the pooler's port."""
        if not all(self._volume(server.service_id).is_open for server in servers):
            raise AssertionError("BUG: a pooler before servers that are not open")
        self._volume(servers[0].service_id).pooler_port = port

    def stop_pooler(self, service_id: str) -> None:
        """Forget the pooler."""
        if service_id in self.volumes:
            self.volumes[service_id].pooler_port = None

    def pooler_serves(self, service_id: str) -> bool:
        """Tell whether there is a pooler."""
        return self._volume(service_id).pooler_port is not None

    def take_snapshot(self, server: Server, snapshot_id: str, paused: bool) -> SnapshotFacts | None:
        """Keep the rows as they are now."""
        with self._lock:
            volume = self._volume(server.service_id)
            if not volume.running and not paused:
                return None
            rows = volume.snapshots.setdefault(snapshot_id, tuple(volume.rows))
            volume.backups += 1  # each writes WAL of its own
            lsn = _lsn(len(rows) + volume.backups)
            return SnapshotFacts(self._clock(), lsn, lsn, 1, len(rows), len(rows) * _ROW_BYTES)

    def prepare_snapshot(self, server: Server, snapshot_id: str, patience_seconds: float, spares: int) -> str | None:
        """Find every snapshot quick to fork."""

    def unprepare_snapshot(self, service_id: str, snapshot_id: str) -> None:
        """Remove nothing."""

    def drop_snapshot(self, service_id: str, snapshot_id: str) -> None:
        """Forget a snapshot."""
        with self._lock:
            if service_id in self.volumes:
                self.volumes[service_id].snapshots.pop(snapshot_id, None)

    def snapshot_ids(self, service_id: str) -> frozenset[str] | None:
        """Return the snapshots that the volume holds."""
        with self._lock:
            return frozenset(self.volumes[service_id].snapshots) if service_id in self.volumes else None

    def trim_archive(self, service_id: str, timeline: int, before_lsn: str) -> int:
        """Have nothing to trim: rows are their own archive."""
        return 0

    def gaps(self, service_id: str, snapshots: Sequence[Snapshot]) -> Sequence[Gap]:
        """Return the gaps that a test has made."""
        return self._volume(service_id).gaps

    def written_since(self, server: Server, snapshot: SnapshotFacts) -> int | None:
        """Return the size of the rows committed since a snapshot."""
        volume = self._volume(server.service_id)
        return (len(volume.rows) - snapshot.next_xid) * _ROW_BYTES if volume.running else None

    def observe(self, server: Server) -> Observation:
        """Look at a server."""
        volume = self.volumes.get(server.service_id)
        if volume is None:
            return Observation(False, "Its volume is lost.")
        return Observation(volume.running, "" if volume.running else "Its server is not running.", volume.follows)

    def read_log(self, server: Server, query: LogQuery) -> LogPage:
        """Return what a test has put into the log; a cursor counts the entries before it."""
        lines = self._volume(server.service_id).log
        last = len(lines) if query.cursor is None else int(query.cursor)
        found = [(n, line) for n, line in reversed(list(enumerate(lines[:last]))) if query.wants(line)]
        page = [line for _, line in found[: query.limit] if not query.is_past(line.at)]
        return LogPage(page, str(found[query.limit - 1][0]) if len(found) > query.limit else None)

    def trim_log(self, service_id: str) -> None:
        """Keep the newest entries."""
        del self._volume(service_id).log[:-KEPT_ENTRIES]

    def measure(self, server: Server) -> dict[str, float] | None:
        """Measure what a test has set, beside the size of the rows."""
        volume = self._volume(server.service_id)
        return {**volume.measured, "ramet_storage_bytes": len(volume.rows) * _ROW_BYTES} if volume.running else None

    def space_bytes(self, service_id: str) -> int | None:
        """Return the size of the rows."""
        return len(self._volume(service_id).rows) * _ROW_BYTES

    def give_back(self) -> None:
        """Nothing is kept."""

    def stop_all(self) -> None:
        """Stop every server."""
        for volume in self.volumes.values():
            volume.running = volume.is_open = False

    def close(self) -> None:
        """Have nothing to let go of."""

    def _volume(self, service_id: str) -> Volume:
        volume = self.volumes.get(service_id)
        if volume is None:
            raise Failed("VOLUME_LOST", f"The volume of service {service_id} is lost")
        return volume

    def _running(self, service_id: str) -> Volume:
        volume = self._volume(service_id)
        if not volume.running:
            raise Unavailable("SERVER_UNREACHABLE", f"The server of service {service_id} is not running")
        return volume

    def _serving(self, service_id: str) -> Volume:
        volume = self._volume(service_id)
        if not (volume.running and volume.is_open):
            raise Failed("NOT_SERVING", f"Service {service_id} does not accept connections")
        return volume


def _rows_of(parent: Volume, source: Source) -> list[Row]:
    if source.target is not None:
        return [row for row in parent.rows if row.committed_at <= source.target]
    if source.snapshot_id is not None:
        return list(parent.snapshots[source.snapshot_id])
    return list(parent.rows)


def _lsn(position: int) -> str:
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
