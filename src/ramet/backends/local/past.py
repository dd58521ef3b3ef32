"""The part of the local backend that keeps the past of services: snapshots and archives."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ramet.backends.base import ExtensionUpdate, Server, SnapshotFacts
from ramet.backends.local.context import Host
from ramet.backends.local.restore import base_backup, snapshots, verify, warm_copy
from ramet.backends.local.restore.base_backup import Base
from ramet.backends.local.restore.gaps import gaps
from ramet.backends.local.sql import connections, extensions
from ramet.backends.local.sql.rows import row
from ramet.backends.local.wal import archive, digests
from ramet.errors import Unavailable
from ramet.model.snapshot import Snapshot
from ramet.model.window import Gap

_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Past(Host):
    """The methods of ramet.backends.base.Backend about what was, and extensions, which states of then need."""

    def tend_archive(self, service_id: str) -> str | None:
        """Note what was archived since the last call; say how far archiving is behind, None while it keeps up."""
        paths = self.servers.paths(service_id)
        digests.record(paths, _LOOK_SECONDS)
        return verify.archive_delay(paths)

    def walk_archive(self, service_id: str, after: str) -> str | None:
        """Compare archived WAL with what was noted, from the name `after` on, for a moment."""
        paths = self.servers.paths(service_id)
        reached = digests.verify(paths, after, _LOOK_SECONDS)
        if reached is None:
            digests.check(paths)
        return reached

    def take_snapshot(self, server: Server, snapshot_id: str, paused: bool) -> SnapshotFacts | None:
        """Make a snapshot; None means that the server is not serving at this moment."""
        paths = self.servers.paths(server.service_id)
        installation = self.servers.installations.of(server.pg_major)
        driver = self.pool.driver
        self.check_wal_room()

        def copy(target: Path) -> Base:
            if paused:
                return base_backup.copy_stopped(driver, installation, paths, target)
            return base_backup.copy_running(driver, paths, target)

        try:
            return snapshots.make(driver, paths, snapshot_id, copy).facts
        except Unavailable:
            return None

    def prepare_snapshot(self, server: Server, snapshot_id: str, patience_seconds: float, spares: int) -> str | None:
        """Make the newest snapshot quick to fork; None when it is, a text that changes while that goes on.

        Where copies cost space, none is made.
        """
        if not self.pool.driver.shares_blocks:
            return None
        self.check_wal_room()
        return warm_copy.prepare(self.servers, self.pool.driver, server, snapshot_id, patience_seconds, spares)

    def unprepare_snapshot(self, service_id: str, snapshot_id: str) -> None:
        """Remove what `prepare_snapshot` made, also half made."""
        warm_copy.drop(self.pool.driver, self.servers.paths(service_id), snapshot_id)

    def drop_snapshot(self, service_id: str, snapshot_id: str) -> None:
        """Remove a snapshot."""
        snapshots.drop(self.pool.driver, self.servers.paths(service_id), snapshot_id)

    def snapshot_ids(self, service_id: str) -> frozenset[str] | None:
        """Return the snapshots that have a directory; None when the service has none for them."""
        try:
            return frozenset(path.name for path in self.servers.paths(service_id).snapshots.iterdir())
        except FileNotFoundError:
            return None

    def trim_archive(self, service_id: str, timeline: int, before_lsn: str) -> int:
        """Remove archived WAL that lies wholly before `before_lsn`; return the number of segments removed."""
        paths = self.servers.paths(service_id)
        count = archive.trim(paths.archive, timeline, before_lsn)
        digests.discard(paths, timeline, before_lsn)
        return count

    def gaps(self, service_id: str, snapshots: Sequence[Snapshot]) -> Sequence[Gap]:
        """Return the moments after the oldest of `snapshots` that missing WAL has made unreachable, in order."""
        pg_waldump = self.servers.installations.default.program("pg_waldump")
        paths = self.servers.paths(service_id)
        return gaps(self.pool.driver, paths, pg_waldump, snapshots, digests.faults(paths))

    def written_since(self, server: Server, snapshot: SnapshotFacts) -> int | None:
        """Return the bytes of WAL since a snapshot; 0 when no transaction wrote anything; None when not serving."""
        query = (
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,"
            " pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s::text::pg_lsn)::bigint"
        )
        try:
            with connections.connect(self.servers.paths(server.service_id)) as connection:
                next_xid, written_bytes = row(connection, query, snapshot.end_lsn)
        except Unavailable:
            return None
        return 0 if next_xid == snapshot.next_xid else max(1, written_bytes)

    def update_extensions(self, server: Server, name: str | None) -> Sequence[ExtensionUpdate]:
        """Update one extension of a serving server, or all, to the versions that are installed; say what was tried."""
        return extensions.update(self.servers.paths(server.service_id), self.servers.account, name)

    def check_extensions(self, server: Server, moment: datetime) -> None:
        """Raise Invalid when a past state of a server needs a library that is not installed any more."""
        installation = self.servers.installations.of(server.pg_major)
        extensions.check_past(self.servers.paths(server.service_id), installation, moment)
