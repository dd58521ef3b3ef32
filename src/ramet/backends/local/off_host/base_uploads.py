"""Base backups of a service in the object store, uploaded from its snapshots: the running server has no part in it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ramet.archive.backup_info import BackupInfo
from ramet.archive.base_backups import BaseBackups
from ramet.archive.layout import backup_id_of
from ramet.backends.interface.archive import ARCHIVE_BUSY
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host.exclusive import check_not_replaced, kept_in_place
from ramet.backends.local.off_host.progress import Base, BaseProgress, WalProgress, read_progress, write_progress
from ramet.backends.local.off_host.shipping import end_of, is_after, is_left, open_hole
from ramet.backends.local.restore import base_backup, snapshots
from ramet.backends.local.restore.single_user import LABEL
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.flush import flush_tree
from ramet.backends.local.wal.segment import segment_named
from ramet.errors import Unavailable
from ramet.machine.installation import Installation
from ramet.model.snapshot import lsn_number

_DIRECTORY = "upload"
_LONGEST = timedelta(days=7)
_WRONG_CLOCK = timedelta(days=1)
_MOST_WAL_BYTES = 4 * 1024**3


def is_due(bases: BaseProgress, wal: WalProgress, now: datetime) -> bool:
    """Tell whether a base backup is due: none is there, the newest is a week old or before a hole, or much WAL follows.

    Nothing of a service whose data was replaced can be restored without one of its new timeline. One from the future
    was taken while the clock was wrong, and would keep the next one away.
    """
    newest = bases.newest
    if newest is None or bases.snapshot_id is not None or open_hole(wal) is not None or is_left(wal, newest):
        return True
    wal_bytes = end_of(wal) - lsn_number(newest.begin_lsn)
    age = now - newest.taken_at
    return age > _LONGEST or age < -_WRONG_CLOCK or wal_bytes > _MOST_WAL_BYTES


@dataclass(frozen=True)
class BaseUpload:
    """The upload of the newest snapshot of one service. Runs in its own thread, and continues after a crash."""

    paths: ServicePaths
    driver: Driver
    installation: Installation
    backups: BaseBackups

    def run(self) -> str:
        """Upload a base backup; return "" when it is complete, or waits for a snapshot or other work on the service."""
        try:
            with kept_in_place(self.paths, self.paths.uploading_lock, self.installation.major):
                return self._run()
        except Unavailable as error:
            if error.code != ARCHIVE_BUSY:
                raise
            return ""

    def _run(self) -> str:
        snapshot_id = read_progress(self.paths, BaseProgress).snapshot_id
        if snapshot_id is None or not self._tree(snapshot_id).is_dir():
            snapshot_id = self._chosen()
            if self._is_before_hole(snapshot_id) or self._is_newest(snapshot_id) or not self._begin(snapshot_id):
                return ""
        info = self._info(snapshot_id)
        if info.backup_id not in {known.backup_id for known in self.backups.complete()}:
            self.backups.upload(info, self._tree(snapshot_id))
        base = Base(info.backup_id, info.begin_time.astimezone(UTC), info.begin_lsn, info.end_lsn, info.begin_segment)
        write_progress(self.paths, BaseProgress(newest=base))
        self._remove()
        return ""

    def _chosen(self) -> str:
        """Return the newest snapshot; of a timeline that the archive has no base backup of, the first one."""
        progress = read_progress(self.paths, BaseProgress)
        begin = segment_named("" if progress.newest is None else progress.newest.begin_segment)
        newest = snapshots.newest(self.paths)
        known = snapshots.in_wal_order(self.paths)
        later = [name for name, base in known if begin is not None and base.facts.timeline > begin.timeline]
        return next((name for name in later if not self._is_before_hole(name)), newest)

    def _is_before_hole(self, snapshot_id: str) -> bool:
        """Tell whether a snapshot is from before a hole, so that nothing after the hole can be restored with it."""
        hole = open_hole(read_progress(self.paths, WalProgress))
        facts = snapshots.base_of(self.paths, snapshot_id).facts
        return hole is not None and not is_after(hole, facts.timeline, facts.start_lsn)

    def _is_newest(self, snapshot_id: str) -> bool:
        """Tell whether the newest base backup was made from a snapshot."""
        newest = read_progress(self.paths, BaseProgress).newest
        taken_at = snapshots.base_of(self.paths, snapshot_id).facts.taken_at
        return newest is not None and newest.backup_id == backup_id_of(taken_at)

    def _begin(self, snapshot_id: str) -> bool:
        """Copy a snapshot aside, so that nothing removes it during the upload; False when it was removed just now."""
        self._remove()
        files.make_directory(self.paths.root, _DIRECTORY)
        source = snapshots.directory_of(self.paths, snapshot_id)
        files.write(self._directory / f"{snapshot_id}.json", files.read_bytes(source / "base.json"))
        tree = self._tree(snapshot_id)
        base = snapshots.copy_data(self.driver, self.paths, snapshot_id, tree)
        check_not_replaced(self.paths)
        if not source.is_dir():
            self._remove()  # the copy lacks what was gone by then
            return False
        # After a power failure the upload continues with these files. The blocks of a snapshot are on disk already.
        flush_tree(self._directory, None if base.is_packed else tree / "base")
        write_progress(self.paths, replace(read_progress(self.paths, BaseProgress), snapshot_id=snapshot_id))
        return True

    def _remove(self) -> None:
        self.driver.remove_tree(self._directory)

    @property
    def _directory(self) -> Path:
        return self.paths.root / _DIRECTORY

    def _tree(self, snapshot_id: str) -> Path:
        return self._directory / snapshot_id

    def _info(self, snapshot_id: str) -> BackupInfo:
        base = msgspec.json.decode(files.read_bytes(self._directory / f"{snapshot_id}.json"), type=base_backup.Base)
        facts, label = base.facts, self._tree(snapshot_id) / LABEL
        return BackupInfo(
            backup_id=backup_id_of(facts.taken_at),
            server_name=self.backups.server,
            system_identifier=base.system_identifier,
            pg_version=self.installation.major * 10_000 + self.installation.minor,
            timeline=facts.timeline,
            begin_time=facts.taken_at,
            end_time=facts.taken_at,
            begin_lsn=facts.start_lsn,
            end_lsn=facts.end_lsn,
            begin_segment=base.segments[0].name,
            end_segment=base.segments[-1].name,
            size_bytes=facts.size_bytes,
            label=files.read(label),
        )
