"""The off-host archive of the services of this host; obeys ramet.backends.interface.archive.Archive."""

import contextlib
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from msgspec.structs import replace

from ramet.archive import owner
from ramet.archive.backup_info import BackupInfo
from ramet.archive.base_backups import BaseBackups
from ramet.archive.layout import backup_id_of, wal_key
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.backends.interface.archive import ArchiveState
from ramet.backends.interface.values import Holdings, Server, Source
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host import shipping
from ramet.backends.local.off_host.base_uploads import BaseUpload, is_due
from ramet.backends.local.off_host.checking import check_archive, concerns, shown_faults
from ramet.backends.local.off_host.digests import forget_digests, sent_digests
from ramet.backends.local.off_host.exclusive import is_in_use, kept_in_place
from ramet.backends.local.off_host.fetch import Fetching
from ramet.backends.local.off_host.holdings import holdings_of
from ramet.backends.local.off_host.progress import (
    Base,
    BaseProgress,
    CheckProgress,
    WalProgress,
    read_progress,
    write_progress,
)
from ramet.backends.local.off_host.retention import expired_bases, expired_wal
from ramet.backends.local.off_host.shipping import Watch
from ramet.backends.local.process import postgres
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.jobs import Jobs
from ramet.backends.local.volumes.pool import Pool
from ramet.backends.local.wal.archive import unarchived
from ramet.backends.local.wal.segment import segment_named
from ramet.errors import Failed
from ramet.machine.secret_files import kept_secret
from ramet.model.gaps import Gap
from ramet.model.snapshot import lsn_number
from ramet.model.timestamps import rfc3339

_UPLOAD = "base-backup"
_UPLOADS_AT_ONCE = 2
_MANY_SEGMENTS = 8
_CHECK_SECONDS = 60.0
_LEFT = "The archive has the service as it was before its restore in place, until the next base backup is complete"


@dataclass(frozen=True)
class LocalArchive:
    """WAL and base backups in the bucket, each service below its name there, which by default is its id."""

    instances: Instances
    pool: Pool
    bucket: Bucket | None
    installation: str
    _watches: dict[str, Watch] = field(default_factory=lambda: defaultdict(Watch))
    _checked: dict[str, float] = field(default_factory=dict)
    _kept_from: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def _uploads(self) -> Jobs:
        """The uploads of base backups, which may take hours: other jobs do not wait for them."""
        return self.instances.jobs_of("uploads.lock", _UPLOADS_AT_ONCE)

    def url(self) -> str | None:
        """Return where the archive is, None without one."""
        return None if self.bucket is None else self.bucket.url

    def is_needed(self) -> bool:
        """Keep WAL on this host, too."""
        return False

    def maintain(self, server: Server, *, paused: bool, timeout_seconds: float) -> ArchiveState:
        """Send new WAL for at most one round, begin a base backup when one is due; return how far the archive is."""
        bucket = self._bucket()
        self._check_owner(bucket)
        paths = self.instances.paths(server.service_id)
        with kept_in_place(paths, paths.archiving_lock, server.pg_major):
            return self._maintain(server, bucket, paths, timeout_seconds, paused=paused)

    def _maintain(
        self, server: Server, bucket: Bucket, paths: ServicePaths, timeout_seconds: float, *, paused: bool
    ) -> ArchiveState:
        _begin_at(paths, bucket)
        bases = read_progress(paths, BaseProgress)
        if (lost := self._lost_base(server, paths, bucket, bases.newest)) is not None:
            return ArchiveState(problem=lost)
        watch = self._watches[server.archive_name]
        seen = None if paused else shipping.see(paths)
        if seen is not None:
            watch.add(seen)
        progress = shipping.ship(paths, WalArchive(bucket, server.archive_name), timeout_seconds)
        needed_lsn = 0 if bases.newest is None else lsn_number(bases.newest.end_lsn)
        if seen is not None and watch.wants_switch(needed_lsn):
            shipping.switch_segment(paths)
        checked = read_progress(paths, CheckProgress)
        problem = self._back_up(server, bucket, bases, progress, checked)
        if bases.newest is None:
            return ArchiveState(problem=problem or _no_base(paths, bucket))
        waiting = shipping.waiting_segments(paths, progress)
        seen_by, is_complete = None if paused else watch, not waiting and not unarchived(paths.data)
        advanced = self._advanced(server, progress, bases.newest, seen_by, is_complete=is_complete)
        if advanced != progress:
            write_progress(paths, advanced)
        behind = (
            f"The archive {bucket.url} is behind: more than {_MANY_SEGMENTS} WAL segments wait"
            if waiting > _MANY_SEGMENTS
            else None
        )
        left = _LEFT if shipping.is_left(progress, bases.newest) else None
        problem = problem or behind or left or shown_faults(checked) or _shown_hole(paths, advanced)
        return ArchiveState(advanced.archived_until, bases.newest.taken_at, problem, list(_gaps(advanced)))

    def _lost_base(self, server: Server, paths: ServicePaths, bucket: Bucket, newest: Base | None) -> str | None:
        """Say that the newest base backup is gone from the bucket; everything is sent again then.

        What was lost before it was sent stays known: the base backup that ended a hole may be the one that is gone.
        """
        if newest is None or not self._is_check_due(server.archive_name):
            return None
        try:
            if BaseBackups(bucket, server.archive_name).find(newest.backup_id) is not None:
                return None
        except Failed:
            pass  # its description is damaged: nothing can be restored with it
        holes = tuple(replace(hole, until=None) for hole in read_progress(paths, WalProgress).holes)
        write_progress(paths, BaseProgress())
        write_progress(paths, WalProgress(holes=holes))
        self._watches.pop(server.archive_name, None)
        return f"The archive {bucket.url} has lost base backup {newest.backup_id}; another one is uploaded"

    def _advanced(
        self, server: Server, progress: WalProgress, newest: Base, watch: Watch | None, *, is_complete: bool
    ) -> WalProgress:
        """Return the progress with what can be restored by now; `watch` is None for a server that is stopped."""
        kept = tuple(h for h in progress.holes if h.following > self._kept_from.get(server.archive_name, ""))
        progress = shipping.bridged(replace(progress, holes=kept), newest)
        needs_wal = newest.begin_lsn != newest.end_lsn  # of a server that was shut down it needs none
        is_behind = needs_wal and shipping.is_behind(progress, newest)
        if shipping.open_hole(progress) is not None or is_behind:
            return progress
        if watch is not None:
            begin = segment_named(newest.begin_segment)
            timeline = shipping.timeline_of(progress) if begin is None else begin.timeline
            until = watch.archived_until(segment_named(progress.segment), timeline)
        else:
            until = datetime.now(UTC) if is_complete and not shipping.is_left(progress, newest) else None
            if postgres.running(self.instances.paths(server.service_id)) is not None:  # it was started just now
                until = None
        return progress if until is None else replace(progress, archived_until=until)

    def _back_up(
        self, server: Server, bucket: Bucket, bases: BaseProgress, wal: WalProgress, checked: CheckProgress
    ) -> str | None:
        """Continue a base backup that is due; return what went wrong with it."""
        is_damaged = bases.newest is not None and concerns(checked, server.archive_name, bases.newest)
        if not (is_damaged or is_due(bases, wal, datetime.now(UTC))):
            return None
        paths = self.instances.paths(server.service_id)
        installation = self.instances.installation_of(server)
        upload = BaseUpload(paths, self.pool.driver, installation, BaseBackups(bucket, server.archive_name))
        return self._uploads.run(paths, _UPLOAD, upload.run, 0) or None

    def is_sending(self, server: Server) -> bool:
        """Tell whether WAL or a base backup is being sent just now."""
        paths = self.instances.paths(server.service_id)
        return is_in_use(paths.archiving_lock) or is_in_use(paths.uploading_lock)

    def holdings(self, server: Server) -> Holdings:
        """Return the base backups of a service, and how much WAL there is from each of them on."""
        return holdings_of(self._bucket(), server.archive_name)

    def fetch(self, child: Server, source: Source, timeout_seconds: float) -> str | None:
        """Download what `source` names for at most `timeout_seconds`; return how far it is, None when all is there."""
        return self._fetching.fetch(child, source, timeout_seconds)

    @cached_property
    def _fetching(self) -> Fetching:
        return Fetching(self.instances, self.pool, self._bucket())

    def check(self, server: Server, budget_bytes: int) -> int:
        """Read back about `budget_bytes` of what the archive has of a service; return the bytes."""
        paths = self.instances.paths(server.service_id)
        with kept_in_place(paths, paths.archiving_lock, server.pg_major):
            return check_archive(paths, self._bucket(), server.archive_name, budget_bytes)

    def discard(self, server: Server, before: datetime) -> None:
        """Remove the base backups and WAL that no time from `before` on needs."""
        bucket, name, paths = self._bucket(), server.archive_name, self.instances.paths(server.service_id)
        self._check_owner(bucket)
        backups, wal = BaseBackups(bucket, name), WalArchive(bucket, name).names()
        known = backups.complete()
        _discard_unusable(paths, backups, known, before)
        expired = expired_bases(known, wal, before)
        for info in expired:
            backups.delete(info.backup_id)
        if kept := [info for info in known if info not in expired]:
            self._kept_from[name] = min(info.begin_segment for info in kept)
            # Files that are gone from the store already are not missed any more, either.
            names = set(expired_wal(kept, wal | sent_digests(paths).keys()))
            forget_digests(paths, names)
            bucket.delete([wal_key(name, each) for each in sorted(names & wal)])

    def remove(self, server: Server) -> None:
        """Remove all that the archive has of a service; what makes base backups complete goes first."""
        bucket, name = self._bucket(), server.archive_name
        self._check_owner(bucket)
        backups, paths = BaseBackups(bucket, name), self.instances.paths(server.service_id)
        with contextlib.ExitStack() as stack:
            # Switched on again, it sends nothing before all is gone and forgotten. A deleted one has no directory.
            with contextlib.suppress(FileNotFoundError):
                for lock in (paths.archiving_lock, paths.uploading_lock):
                    stack.enter_context(kept_in_place(paths, lock, server.pg_major))
            for info in backups.complete():
                backups.delete(info.backup_id)
            bucket.delete([found.key for found in bucket.objects(f"{name}/")])
            if paths.root.is_dir():
                _forget(paths)
        self._watches.pop(name, None)
        self._checked.pop(name, None)
        self._kept_from.pop(name, None)

    def _bucket(self) -> Bucket:
        if self.bucket is None:
            raise AssertionError("BUG: there is no archive")
        return self.bucket

    def _check_owner(self, bucket: Bucket) -> None:
        """Raise Failed when another installation writes to the archive; asked once a minute.

        It counts as checked when the archive has answered: until then other threads ask, too.
        """
        now = time.monotonic()
        if now - self._checked.get(bucket.url, -_CHECK_SECONDS) >= _CHECK_SECONDS:
            owner.claim(bucket, self.installation)
            self._checked[bucket.url] = now

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
    return kept_secret(secrets / "installation", uuid.uuid4().hex.encode).decode()


def _discard_unusable(paths: ServicePaths, backups: BaseBackups, known: Sequence[BackupInfo], before: datetime) -> None:
    """Remove old base backups that are damaged, or whose upload was given up; none while an upload is under way.

    Those that are not among the complete ones that are `known` are looked at once more: an upload may have ended.
    """
    with contextlib.suppress(TimeoutError, FileNotFoundError), files.locked(paths.uploading_lock, timeout_seconds=0):
        if read_progress(paths, BaseProgress).snapshot_id is not None:
            return
        usable = {info.backup_id for info in known}
        for backup_id in backups.ids():
            is_old = backup_id not in usable and backup_id < backup_id_of(before)
            if is_old and not backups.is_usable(backup_id):
                backups.delete(backup_id)


def _begin_at(paths: ServicePaths, bucket: Bucket) -> None:
    """Forget what was sent to an archive elsewhere: this one has nothing of it."""
    if (known := read_progress(paths, WalProgress)).url != bucket.url:
        if known.url:
            _forget(paths)
        write_progress(paths, replace(read_progress(paths, WalProgress), url=bucket.url))


def _forget(paths: ServicePaths) -> None:
    for progress in (BaseProgress(), WalProgress(), CheckProgress()):
        write_progress(paths, progress)
    forget_digests(paths, sent_digests(paths).keys())


def _no_base(paths: ServicePaths, bucket: Bucket) -> str:
    return (
        f"The archive {bucket.url} has no complete base backup of service {paths.service_id} from this host yet: until"
        " then the loss of the host brings back the state that was recovered here, or nothing"
    )


def _shown_hole(paths: ServicePaths, progress: WalProgress) -> str | None:
    """Return which times cannot be restored, in a sentence; None when all can."""
    if (hole := shipping.open_hole(progress)) is not None:
        since = "" if hole.since is None else f" after {rfc3339(hole.since)}"
        return (
            f"WAL segment {hole.first} is missing from the local archive of service {paths.service_id}: nothing{since}"
            " can be restored from the off-host archive until another base backup is complete"
        )
    gap = next(_gaps(progress), None)
    if gap is None or gap.ends_at is None:
        return None
    between = f"between {rfc3339(gap.begins_at)} and {rfc3339(gap.ends_at)}"
    return f"No time {between} can be restored from the off-host archive: {gap.reason}"


def _gaps(progress: WalProgress) -> Iterator[Gap]:
    """Yield the times of the holes that a later base backup has ended."""
    for hole in progress.holes:
        if hole.since is not None and hole.until is not None:
            yield Gap(hole.since, hole.until, f"WAL segment {hole.first} was lost")
