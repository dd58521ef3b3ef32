"""A service as the off-host archive holds it, downloaded for a fork: a base backup, and the WAL up to the target.

It continues after a crash: parts of the base backup and WAL segments that are complete are not downloaded again.
`restore.fetched` says where it is, and removes it.
"""

import contextlib
import errno
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import Any

from msgspec.structs import replace

from ramet.archive.backup_info import BackupInfo
from ramet.archive.base_backups import BaseBackups, Checksum
from ramet.archive.layout import ARCHIVE_INCOMPLETE
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.backends.interface.values import SnapshotFacts, Source
from ramet.backends.local.host import files
from ramet.backends.local.restore import snapshots
from ramet.backends.local.restore.base_backup import Base
from ramet.backends.local.restore.fetched import Failure, Place, State
from ramet.backends.local.restore.recovery_target import WalReader, ends_after, last_certain
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.read_only_storage import check_limit, room_of
from ramet.backends.local.volumes.pool import Pool
from ramet.backends.local.volumes.syscalls import sync_tree
from ramet.backends.local.wal.locate import WAL_DIRECTORY, WalSource
from ramet.backends.local.wal.segment import SEGMENT_BYTES, UNREADABLE, Segment, fault_of, history_name, segment_named
from ramet.errors import Error, Failed, Unavailable
from ramet.machine.installation import Installation
from ramet.model.timestamps import rfc3339

_AT_ONCE = 4
_SEGMENTS_A_LOOK = 16
_RECORD_EVERY_SECONDS = 0.5
_RETRY_SECONDS = 5.0
# WAL is read to this long after the target: until then a clock that is set back may show the target again.
_CLOCK_STEP = timedelta(minutes=10)
_log = logging.getLogger(__name__)


class _Ended(Exception):
    """The download is to end: what it has is being removed."""


@dataclass
class Download:
    """One download, until it is complete, cannot be completed (`failure`), or is ended."""

    place: Place
    source: Source
    pool: Pool
    instances: Instances
    installation: Installation
    bucket: Bucket
    failure: Failure | None = None
    _state: State = field(init=False)
    _began: float = field(default_factory=time.monotonic)
    _recorded: float = 0.0

    def run(self) -> None:
        """Download until that is over, one way or the other, unless another process does."""
        with (
            contextlib.suppress(TimeoutError, FileNotFoundError, _Ended),
            files.locked(self.place.lock, timeout_seconds=0),
        ):
            self._check_end()
            self._state = self.place.read() or State(self._backup_id, self.bucket.url)
            self._began = time.monotonic() - self._state.seconds
            while not self._attempt():
                self._pause()

    def _attempt(self) -> bool:
        """Continue the download; False when it has to be tried again."""
        try:
            self._fetch()
        except Unavailable as error:
            with contextlib.suppress(OSError):
                self._record(problem=str(error))
            return False
        except Error as error:
            self._fail(Failure(error.code, error.message, error.details))
        except _Ended:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of a thread: whoever waits for it would wait for ever
            self._check_end()  # its files are being removed
            _log.exception("the download of service %s failed", self._parent)
            message = f"The download of service {self._parent} from {self.bucket.url} failed: {error}"
            self._fail(Failure("DOWNLOAD_FAILED", message, "Try again."))
        return True

    def _fail(self, failure: Failure) -> None:
        """Record why the download failed; this object knows it also where the storage has no space for the record."""
        self.failure = failure
        with contextlib.suppress(OSError):
            self._record(failure=failure)

    @property
    def _parent(self) -> str:
        return self.place.parent.service_id

    @property
    def _backup_id(self) -> str:
        return self.source.base_backup_id or ""

    def _fetch(self) -> None:
        name = self.source.parent.archive_name
        backups = BaseBackups(self.bucket, name)
        info = backups.find(self._backup_id)
        if info is None:
            raise Failed(
                ARCHIVE_INCOMPLETE,
                f"The archive {self.bucket.url} has no base backup {self._backup_id} of service {self._parent}",
                "It may have expired. Choose a later time.",
            )
        base, parts = base_of(info), backups.parts(info.backup_id)
        wal = _Wal(WalArchive(self.bucket, name), base.segments[0])
        self._record(
            problem="",
            total_bytes=sum(part.size_bytes for part in parts) + sum(wal.sizes.values()),
            is_bound=self.source.target is not None,
            is_superseded=wal.is_superseded,
        )
        self._check_room(info, len(wal.sizes))
        self._unpack(backups, info, parts)
        snapshots.record(self.place.parent, info.backup_id, base)
        self._add_history(wal.archive, info)
        self._follow(wal, base)
        for timeline in wal.later_timelines:
            files.write(
                self.place.parent.archive / history_name(timeline), "# Another server has used this timeline.\n"
            )
        self._record(is_complete=True)

    def _check_room(self, info: BackupInfo, segments: int) -> None:
        """Raise Exhausted unless the limit of the storage is still free beside what is downloaded, and its copy."""
        if self._state.parts == 0:
            copies = 1 if self.pool.driver.shares_blocks else 2
            needed_bytes = copies * (info.size_bytes + segments * SEGMENT_BYTES)
            self.pool.check_room(needed_bytes + room_of(self.pool).limit_bytes)

    def _unpack(self, backups: BaseBackups, info: BackupInfo, parts: Sequence[Checksum]) -> None:
        parent, account = self.place.parent, self.instances.account
        for directory in (parent.root, parent.archive, parent.snapshots, parent.snapshots / info.backup_id):
            account.make_directory(directory)
        tree = snapshots.data_of(parent, info.backup_id)
        if not tree.is_dir():
            self.pool.driver.create_tree(tree)
        self._record(done_bytes=sum(part.size_bytes for part in parts[: self._state.parts]))
        for number in range(self._state.parts, len(parts)):
            owner = (account.uid, account.gid)
            backups.unpack(info.backup_id, number, parts[number], tree, owner, self._count)
            sync_tree(tree)
            self._record(durable=True, parts=number + 1)

    def _add_history(self, archive: WalArchive, info: BackupInfo) -> None:
        """Download the history of a base backup's timeline, unless that has it: those of earlier releases do not."""
        parent, name = self.place.parent, history_name(info.timeline)
        if not (snapshots.data_of(parent, info.backup_id) / WAL_DIRECTORY / name).exists() and archive.has(name):
            files.write(parent.archive / name, archive.download(name))

    def _follow(self, wal: "_Wal", base: Base) -> None:
        """Download WAL segments in order, up to one that was written clearly after the target, or to a damaged one.

        Raises Failed when the WAL before the damaged one does not reach beyond the target.
        """
        segments, last = list(wal.sizes) or wal.beyond(None), base.segments[-1]
        with ThreadPoolExecutor(_AT_ONCE, "fetch-wal") as executor:
            while segments:
                group, segments = segments[:_SEGMENTS_A_LOOK], segments[_SEGMENTS_A_LOOK:]
                sizes = [(segment, executor.submit(self._segment, wal, segment, base)) for segment in group]
                for segment, size_bytes in sizes:
                    try:
                        self._count(size_bytes.result())
                    except Failed as error:
                        self._end_before(segment, base, error)
                        return
                if self._is_past_target(group[-1], base):
                    return
                segments, last = segments or wal.beyond(group[-1]), group[-1]
        if wal.end is not None and last.timeline == wal.end.timeline and last < wal.end:
            missing = Segment(last.timeline, last.number + 1)
            message = f"The archive {self.bucket.url} has lost WAL segment {missing.name} of service {self._parent}"
            self._end_before(missing, base, Failed(ARCHIVE_INCOMPLETE, message))

    def _end_before(self, damaged: Segment, base: Base, error: Failed) -> None:
        """End the download before a damaged segment. Raises Failed when the WAL before it does not reach the target."""
        target, last = self.source.target, last_certain(self._reader(base), base, damaged)
        if last is None:
            taken_at = rfc3339(base.facts.taken_at)
            raise Failed(error.code, error.message, f"Choose a time before {taken_at}, for an earlier base backup.")
        if target is None or last < target:
            newest = f"The newest time that can be restored before it is {rfc3339(last)} (--to {rfc3339(last)})."
            raise Failed(error.code, error.message, newest)
        if last <= target + _CLOCK_STEP:
            self._record(unread=f"{error.message}; whether the clock was set back after that is not known")

    def _segment(self, wal: "_Wal", segment: Segment, base: Base) -> int:
        """Download a segment unless it is there, verify it, and return its bytes in the store."""
        self._check_end()
        path = self.place.parent.archive / segment.name
        if not path.exists() or fault_of(path, segment, base.system_identifier) is not None:
            files.write(path, wal.archive.download(segment.name))
            fault = fault_of(path, segment, base.system_identifier)
            if fault == UNREADABLE:  # the disk of this host, not the archive
                raise OSError(errno.EIO, UNREADABLE, str(path))
            if fault is not None:
                path.unlink()
                raise Failed(
                    "ARCHIVE_DAMAGED",
                    f"WAL segment {segment.name} of service {self._parent} in the archive {self.bucket.url} {fault}",
                )
        return wal.sizes.get(segment, 0)

    def _is_past_target(self, segment: Segment, base: Base) -> bool:
        target = self.source.target
        if target is None:
            return False
        return ends_after(self._reader(base), segment, target + _CLOCK_STEP)

    def _reader(self, base: Base) -> WalReader:
        source = WalSource(self.pool.driver, [self.place.parent.archive], base.system_identifier)
        return WalReader(source, self.installation.program("pg_waldump"))

    def _count(self, size_bytes: int) -> None:
        self._check_end()
        self._state = replace(self._state, done_bytes=self._state.done_bytes + size_bytes)
        if time.monotonic() - self._recorded > _RECORD_EVERY_SECONDS:
            check_limit(self.pool, "download", "try again")
            self._record()

    def _record(self, *, durable: bool = False, **changes: Any) -> None:
        self._recorded = time.monotonic()
        seconds = round(self._recorded - self._began, 3)
        self._state = replace(self._state, seconds=seconds, **changes)
        self.place.write(self._state, durable=durable)

    def _check_end(self) -> None:
        if self.place.is_ending:
            raise _Ended

    def _pause(self) -> None:
        deadline = time.monotonic() + _RETRY_SECONDS
        while time.monotonic() < deadline:
            self._check_end()
            time.sleep(0.1)


class _Wal:
    """The WAL of a timeline in the archive from a segment on: the bytes in the store of each segment, in order."""

    def __init__(self, archive: WalArchive, first: Segment) -> None:
        self.archive = archive
        self._before = Segment(first.timeline, first.number - 1)
        found = archive.sizes(self._before.name)
        listed = {segment: size for name, size in found.items() if (segment := segment_named(name))}
        newest = max((int(name[:8], 16) for name in found), default=first.timeline)
        self.later_timelines = range(first.timeline + 1, newest + 1)
        self.sizes = {segment: listed[segment] for segment in sorted(listed) if segment.timeline == first.timeline}
        self.end = segment_named(archive.end() or "")
        self.is_superseded = any(segment.timeline > first.timeline for segment in listed)

    def beyond(self, last: Segment | None) -> list[Segment]:
        """Return the segment after the last that was listed, where it is there: a listing may be behind."""
        known = last or self._before
        following = Segment(known.timeline, known.number + 1)
        return [following] if self.archive.has(following.name) else []


def base_of(info: BackupInfo) -> Base:
    """Return the record of a base backup in the archive, as that of a snapshot."""
    facts = SnapshotFacts(
        taken_at=info.end_time.astimezone(UTC),
        start_lsn=info.begin_lsn,
        end_lsn=info.end_lsn,
        timeline=info.timeline,
        next_xid=0,
        size_bytes=info.size_bytes,
    )
    return Base(facts, info.system_identifier, clean=not info.label, seconds={})
