"""Snapshots, archived WAL and forks of the services of this host."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from ramet.backends.interface.restore import DATA_NOT_READ, NOT_ANALYZED
from ramet.backends.interface.servers import SERVER_KILLED
from ramet.backends.interface.values import Capture, Progress, Server, SnapshotFacts, Source
from ramet.backends.local.process import postgres
from ramet.backends.local.restore import (
    base_backup,
    capture,
    post_fork,
    prepared_copy,
    recovery,
    snapshots,
    standby_copy,
)
from ramet.backends.local.restore.base_backup import Base
from ramet.backends.local.restore.capture import Capturing, check_boot
from ramet.backends.local.restore.gaps import gaps
from ramet.backends.local.restore.single_user import SingleUser
from ramet.backends.local.server.amcheck import read_all
from ramet.backends.local.server.analyze import collect
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.read_only_storage import room_of
from ramet.backends.local.sql import connections, extensions
from ramet.backends.local.sql.connections import row
from ramet.backends.local.sql.tenant_code import Allowance
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.pool import Pool
from ramet.backends.local.wal import archive, digests
from ramet.errors import Unavailable, Unseen
from ramet.model.gaps import Gap
from ramet.model.snapshot import Snapshot

_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class LocalRestore:
    """Copies of data directories, and WAL archives; obeys ramet.backends.interface.restore.Restore."""

    instances: Instances
    pool: Pool

    def check_fork(self, source: Source, as_of: datetime | None, count: int = 1) -> None:
        """Leave the limit of the storage free where data is copied: servers go on writing during that."""
        parent = self.instances.paths(source.parent.service_id)
        driver, snapshot_id = self.pool.driver, source.snapshot_id
        if snapshot_id is None:
            copied_bytes = base_backup.copied_bytes(driver, parent.data)
        else:
            copied_bytes = snapshots.copied_bytes(driver, parent, snapshot_id)
        self.pool.check_room(count * copied_bytes + room_of(self.pool).limit_bytes if copied_bytes else 0)
        if as_of is not None:
            extensions.check_past(parent, self.instances.installation_of(source.parent), as_of)

    def capture(self, child: Server, source: Source) -> Capture | None:
        """Copy the data of `source` into the child's new volume; not where the parent's own WAL might not fit then."""
        self.pool.check_wal_room()
        return Capturing(self.instances, self.pool.driver).capture(child, source)

    def recover(self, child: Server, capture: Capture, timeout_seconds: float) -> Progress:
        """Recover what was captured; not where the WAL of other services might not fit then, however much it writes."""
        if recovery.is_recovered(capture):
            return recovery.as_captured(capture)
        self.pool.check_wal_room()
        paths = self.instances.paths(child.service_id)
        check_boot(paths)
        self.instances.config.write(child, Phase.CLOSED)
        installation, account = self.instances.installation_of(child), self.instances.account
        place = SingleUser(paths.root, paths.data, paths.config_file, paths.recovery_log, installation, account)
        return recovery.recover(place, capture, timeout_seconds)

    def report_on_fork(self, child: Server, parent_id: str | None) -> dict[str, Any]:
        paths = self.instances.paths(child.service_id)
        parent = None if parent_id is None else self.instances.paths(parent_id)
        installation = self.instances.installation_of(child)
        return post_fork.examine(self.pool.driver, installation, paths, parent, capture.read_capture(paths))

    def analyze(self, server: Server, timeout_seconds: float) -> str | None:
        paths = self.instances.paths(server.service_id)
        jobs, name = self.instances.jobs, "statistics"  # an earlier release kept a text as the result of "analyze"

        def enter() -> None:
            jobs.check_wanted(paths, name)
            with connections.connect(paths):
                pass

        work = partial(collect, paths, Allowance(), enter)
        ended = jobs.result_of(paths, name, work, timeout_seconds, code=NOT_ANALYZED)
        if ended is None and not postgres.is_ready(paths):  # it may wait for its turn
            raise Unavailable(SERVER_KILLED, f"The server of service {server.service_id} is not running")
        return ended

    def verify_data(self, server: Server, timeout_seconds: float) -> str | None:
        """Check every table and index; this installs the extension amcheck."""
        paths = self.instances.paths(server.service_id)
        work = partial(read_all, paths, Allowance())
        return self.instances.jobs.result_of(paths, "verify", work, timeout_seconds, code=DATA_NOT_READ)

    def verify_archive(self, service_id: str, after: str) -> str | None:
        paths = self.instances.paths(service_id)
        reached = digests.verify(paths, after, _LOOK_SECONDS)
        if reached is None:
            digests.check(paths)
        return reached

    def take_snapshot(self, server: Server, snapshot_id: str, paused: bool) -> SnapshotFacts | None:
        paths = self.instances.paths(server.service_id)
        installation = self.instances.installation_of(server)
        self.pool.check_wal_room()

        def copy(driver: Driver, target: Path) -> Base:
            if server.upstream is not None:
                copy_standby = standby_copy.copy_stopped_standby if paused else standby_copy.copy_running_standby
                return copy_standby(driver, installation, paths, target)
            if paused:
                return base_backup.copy_stopped(driver, installation, paths, target)
            return base_backup.copy_running(driver, paths, target)

        try:
            return snapshots.make(self.pool.driver, paths, snapshot_id, copy).facts
        except Unseen:
            raise
        except Unavailable:
            return None

    def prepare_snapshot(self, server: Server, snapshot_id: str, timeout_seconds: float, spares: int) -> str | None:
        """Make the newest snapshot quick to fork; None when it is, a text that changes while it is being prepared.

        Where copies cost space, none is made.
        """
        if not self.pool.driver.shares_blocks or server.upstream is not None:
            return None
        self.pool.check_wal_room()
        return prepared_copy.prepare(self.instances, self.pool.driver, server, snapshot_id, timeout_seconds, spares)

    def discard_preparation(self, service_id: str, snapshot_id: str) -> None:
        prepared_copy.drop(self.pool.driver, self.instances.paths(service_id), snapshot_id)

    def delete_snapshot(self, service_id: str, snapshot_id: str) -> None:
        snapshots.drop(self.pool.driver, self.instances.paths(service_id), snapshot_id)

    def snapshot_ids(self, service_id: str) -> frozenset[str] | None:
        """Return the snapshots that have a directory; None when the service has none for them."""
        try:
            return frozenset(path.name for path in self.instances.paths(service_id).snapshots.iterdir())
        except FileNotFoundError:
            return None

    def discard_wal(self, service_id: str, oldest: Snapshot | SnapshotFacts) -> int:
        """Remove archived WAL that ends before `oldest` begins; return the number of segments removed."""
        paths = self.instances.paths(service_id)
        count = archive.trim(paths.archive, oldest.timeline, oldest.start_lsn)
        needed = {base.facts.timeline for _, base in snapshots.in_wal_order(paths)}
        archive.trim_histories(paths.archive, oldest.timeline, needed)
        digests.discard(paths, oldest.timeline, oldest.start_lsn)
        return count

    def gaps(self, service_id: str, snapshots: Sequence[Snapshot]) -> Sequence[Gap]:
        paths = self.instances.paths(service_id)
        return gaps(self.pool.driver, paths, self.instances.installations, snapshots, digests.faults(paths))

    def written_since(self, server: Server, snapshot: Snapshot | SnapshotFacts) -> int | None:
        if server.upstream is not None:
            return standby_copy.replayed_since(self.instances.paths(server.service_id), snapshot.end_lsn)
        query = (
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,"
            " pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s::text::pg_lsn)::bigint"
        )
        try:
            with connections.connect(self.instances.paths(server.service_id)) as connection:
                next_xid, written_bytes = row(connection, query, snapshot.end_lsn)
        except Unavailable:
            return None
        return 0 if next_xid == snapshot.next_xid else max(1, written_bytes)
