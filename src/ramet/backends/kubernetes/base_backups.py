"""The base backups of services in the archive: what is there, and asking the operator for another one."""

import time
from datetime import UTC, datetime, timedelta

from ramet.archive.backup_info import BackupInfo
from ramet.archive.base_backups import BaseBackups
from ramet.archive.layout import ARCHIVE_INCOMPLETE
from ramet.archive.wal import WalArchive
from ramet.backends.interface.values import BaseBackup, Holdings, SnapshotFacts, Source
from ramet.backends.kubernetes import archive_manifests, names
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.past import Base, base_of_snapshot
from ramet.backends.kubernetes.resources import Backup
from ramet.backends.local.wal.segment import SEGMENT_BYTES, segment_named
from ramet.errors import Failed

DUE_AFTER = timedelta(days=1)


def backups_of(place: Place, archived_as: str) -> BaseBackups:
    """Return the base backups below a name in the archive."""
    if place.bucket is None:
        raise AssertionError("BUG: there is no archive")
    return BaseBackups(place.bucket, archived_as)


def complete(place: Place, archived_as: str) -> list[BackupInfo]:
    """Return the complete base backups below a name, in the order of the WAL."""
    return sorted(backups_of(place, archived_as).complete(), key=lambda one: facts_of(one).wal_order)


def facts_of(info: BackupInfo) -> SnapshotFacts:
    """Return a base backup as a snapshot is recorded; which transaction was next is not known."""
    return SnapshotFacts(
        taken_at=info.end_time,
        start_lsn=info.begin_lsn,
        end_lsn=info.end_lsn,
        timeline=info.timeline,
        next_xid=0,
        size_bytes=info.size_bytes,
    )


def base_in_archive(place: Place, archived_as: str, backup_id: str) -> Base:
    """Return a base backup with the ends of later ones. Raises Failed when it is gone."""
    known = complete(place, archived_as)
    at = next((n for n, one in enumerate(known) if one.backup_id == backup_id), None)
    if at is None:
        raise Failed(
            ARCHIVE_INCOMPLETE,
            f"The archive has no base backup {backup_id} of {archived_as}, or not any more",
            "Fork once more.",
        )
    return Base(facts_of(known[at]), [one.end_lsn for one in known[at + 1 :]], backup_id=backup_id)


def base_of(place: Place, source: Source) -> Base | None:
    """Return what a fork rolls forward; None for one of a snapshot or of now. Raises Failed when it is gone."""
    if source.base_backup_id is not None:
        return base_in_archive(place, source.parent.archive_name, source.base_backup_id)
    if source.target is None:
        return None
    if source.snapshot_id is None:
        raise AssertionError("BUG: a target without a base")
    return base_of_snapshot(place, source.parent.service_id, source.snapshot_id)


def holdings(place: Place, archived_as: str) -> Holdings:
    """Return the base backups below a name, and how much WAL there is from each of them on."""
    backups, known = backups_of(place, archived_as), complete(place, archived_as)
    if not known:
        return Holdings([])
    sizes = backups.sizes()
    wal = {
        segment.number: size
        for name, size in WalArchive(backups.bucket, archived_as).sizes().items()
        if (segment := segment_named(name)) is not None
    }
    firsts = [_first_number(one) for one in known]
    ends = [*firsts[1:], max(wal, default=0) + 1]
    found = []
    for info, first, end in zip(known, firsts, ends, strict=True):
        own = [size for number, size in wal.items() if first <= number < end]
        facts = facts_of(info)
        found.append(
            BaseBackup(
                id=info.backup_id,
                taken_at=facts.taken_at,
                start_lsn=facts.start_lsn,
                end_lsn=facts.end_lsn,
                timeline=facts.timeline,
                size_bytes=facts.size_bytes,
                download_bytes=sizes.get(info.backup_id, 0),
                wal_bytes=len(own) * SEGMENT_BYTES,
                wal_download_bytes=sum(own),
            )
        )
    return Holdings(found)


def ask_for_one(place: Place, service_id: str, newest: BackupInfo | None) -> str | None:
    """Ask the operator for a base backup when one is due and none is under way; return why the last one failed."""
    asked = place.api.find(Backup, names.labels_of(service_id))
    under_way = [one for one in asked if not one.is_over]
    failed = next((one.status.error for one in asked if one.status.phase == "failed"), None)
    if under_way or (newest is not None and datetime.now(UTC) - newest.end_time < DUE_AFTER):
        return failed
    for one in asked:
        place.api.delete(Backup, one.metadata.name)
    mark = time.strftime("%Y%m%d%H%M%S", time.gmtime())
    place.api.apply(Backup, archive_manifests.base_backup(service_id, mark))
    return failed


def _first_number(info: BackupInfo) -> int:
    segment = segment_named(info.begin_segment)
    return 0 if segment is None else segment.number
