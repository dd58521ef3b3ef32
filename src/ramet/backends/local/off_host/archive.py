"""The off-host archive of the services of this host; obeys ramet.backends.interface.archive.Archive."""

import contextlib
import os
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from ramet.archive import owner
from ramet.archive.base_backups import BaseBackups
from ramet.archive.layout import info_key, wal_key
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.backends.interface.archive import ArchiveState
from ramet.backends.interface.values import Server
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host import shipping
from ramet.backends.local.off_host.base_uploads import BaseUpload, is_due
from ramet.backends.local.off_host.progress import BaseProgress, WalProgress, read_progress, write_progress
from ramet.backends.local.off_host.shipping import Watch
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.wal.segment import segment_named
from ramet.errors import Error

_UPLOAD = "base-backup"
_CHECK_SECONDS = 60.0


@dataclass(frozen=True)
class LocalArchive:
    """WAL and base backups in the bucket, each service below its own id."""

    instances: Instances
    driver: Driver
    bucket: Bucket | None
    installation: str
    _watches: dict[str, Watch] = field(default_factory=lambda: defaultdict(Watch))
    _checked: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self) -> str | None:
        """Return where the archive is, None without one."""
        return None if self.bucket is None else self.bucket.url

    def maintain(self, server: Server, *, paused: bool, timeout_seconds: float) -> ArchiveState:
        """Send new WAL for at most one round, begin a base backup when one is due; return how far the archive is."""
        bucket = self._bucket()
        self._check_owner(bucket)
        paths = self.instances.paths(server.service_id)
        if (lost := self._lost_base(paths, bucket)) is not None:
            return ArchiveState(problem=lost)
        watch = self._watches[server.service_id]
        seen = None if paused else shipping.see(paths)
        if seen is not None:
            watch.add(seen)
        problem = self._back_up(server, paths, bucket)
        progress = shipping.ship(paths, WalArchive(bucket, server.service_id), timeout_seconds)
        until = self._until(paths, progress, watch, paused=paused)
        if seen is not None and watch.wants_switch():
            shipping.switch_segment(paths)
        if until is not None and until != progress.archived_until:
            progress = replace(progress, archived_until=until)
            write_progress(paths, progress)
        base = read_progress(paths, BaseProgress).newest
        if base is None:
            return ArchiveState(problem=problem)
        return ArchiveState(progress.archived_until, base.taken_at, problem)

    def _lost_base(self, paths: ServicePaths, bucket: Bucket) -> str | None:
        """Say that the newest base backup is gone from the bucket; everything is sent again then."""
        newest = read_progress(paths, BaseProgress).newest
        if newest is None or not self._is_check_due(paths.service_id):
            return None
        if bucket.read(info_key(paths.service_id, newest.backup_id)) is not None:
            return None
        write_progress(paths, BaseProgress())
        write_progress(paths, WalProgress())
        self._watches.pop(paths.service_id, None)
        return f"The archive {bucket.url} has lost base backup {newest.backup_id}; another one is uploaded"

    def _until(self, paths: ServicePaths, progress: WalProgress, watch: Watch, *, paused: bool) -> datetime | None:
        if paused:
            return datetime.now(UTC) if shipping.is_complete(paths, progress) else None
        return watch.archived_until(shipping.end_of(progress))

    def _back_up(self, server: Server, paths: ServicePaths, bucket: Bucket) -> str | None:
        """Continue a base backup that is due; return what went wrong with it."""
        if not is_due(paths, datetime.now(UTC)):
            return None
        installation = self.instances.installations.of(server.pg_major)
        upload = BaseUpload(paths, self.driver, installation, BaseBackups(bucket, server.service_id))
        return self.instances.jobs.run(paths, _UPLOAD, upload.run, 0) or None

    def discard(self, service_id: str, before: datetime) -> None:
        """Remove the base backups and WAL that no time from `before` on needs."""
        bucket = self._bucket()
        self._check_owner(bucket)
        backups = BaseBackups(bucket, service_id)
        known = backups.complete()
        expired = [info for info in known if info.end_time <= before][:-1]  # times after `before` need the last of them
        for info in expired:
            backups.delete(info.backup_id)
        if expired:
            first = known[len(expired)].begin_segment
            bucket.delete(list(_keys_before(service_id, WalArchive(bucket, service_id), first)))

    def _bucket(self) -> Bucket:
        if self.bucket is None:
            raise AssertionError("BUG: there is no archive")
        return self.bucket

    def _check_owner(self, bucket: Bucket) -> None:
        """Raise Failed when another installation writes to the archive; asked once a minute."""
        if self._is_check_due(bucket.url):
            try:
                owner.claim(bucket, self.installation)
            except Error:
                self._checked.pop(bucket.url)
                raise

    def _is_check_due(self, name: str) -> bool:
        """Tell whether something was not checked for a minute; it counts as checked then."""
        with self._lock:
            now = time.monotonic()
            is_due = now - self._checked.get(name, -_CHECK_SECONDS) >= _CHECK_SECONDS
            if is_due:
                self._checked[name] = now
        return is_due


def installation_id(secrets: Path) -> str:
    """Return the identifier of this data directory as the writer of an archive; generated once."""
    path = secrets / "installation"
    with contextlib.suppress(FileNotFoundError):
        return path.read_text()
    with contextlib.suppress(FileExistsError), path.open("x") as file:
        file.write(uuid.uuid4().hex)
        file.flush()
        os.fsync(file.fileno())
    return path.read_text()


def _keys_before(service_id: str, wal: WalArchive, first: str) -> Iterator[str]:
    """Yield the keys of WAL segments that end before a segment, of its timeline or an earlier one."""
    kept = segment_named(first)
    for name in wal.names():
        segment = segment_named(name)
        if segment is None or kept is None:
            continue
        if segment.timeline <= kept.timeline and segment.number < kept.number:
            yield wal_key(service_id, name)
