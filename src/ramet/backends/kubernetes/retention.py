"""What of the archive nobody needs any more: WAL before the oldest snapshot and base backup, and whole services."""

import contextlib
import logging
from collections.abc import Collection, Iterable
from datetime import datetime

from ramet.archive import layout
from ramet.backends.interface.values import SnapshotFacts
from ramet.backends.kubernetes import archiving, base_backups, names, snapshots
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import Backup, VolumeSnapshot
from ramet.backends.kubernetes.site import Forks
from ramet.backends.local.wal.segment import SEGMENT_BYTES, segment_named
from ramet.errors import Failed, Unavailable
from ramet.model.snapshot import Snapshot, lsn_number

_log = logging.getLogger(__name__)


def discard_wal(place: Place, service_id: str, oldest: Snapshot | SnapshotFacts) -> int:
    """Remove the WAL that neither a snapshot from `oldest` on nor a base backup needs; return the number of files."""
    firsts = [segment_named(one.begin_segment) for one in base_backups.complete(place, service_id)]
    numbers = [_first_needed(oldest.start_lsn), *(one.number for one in firsts if one is not None)]
    return _discard_before(place, service_id, min(numbers))


def discard(place: Place, service_id: str, archived_as: str, before: datetime) -> None:
    """Remove the base backups that no time from `before` on needs, failed ones too, and the WAL that only they needed.

    Where the storage takes no snapshots, WAL from before is of no use without a base backup, or a snapshot from when it
    did.
    """
    known = base_backups.complete(place, archived_as)
    if not known and place.site.forks is Forks.COPY and not list(_needed_by_snapshots(place, service_id)):
        _discard_older(place, archived_as, before)
    _discard_failed(place, service_id, archived_as, {info.backup_id for info in known}, before)
    done = [one for one in known if one.end_time <= before]
    expired = done[:-1]
    for info in expired:
        base_backups.backups_of(place, archived_as).delete(info.backup_id)
    if not expired:
        return
    firsts = [segment_named(one.begin_segment) for one in known if one not in expired]
    numbers = [one.number for one in firsts if one is not None]
    _discard_before(place, archived_as, min([*numbers, *_needed_by_snapshots(place, service_id)]))


def _discard_failed(
    place: Place, service_id: str, archived_as: str, complete: Collection[str], before: datetime
) -> None:
    """Remove what old base backups that did not become complete have left; none while one is under way.

    Those that are not among the `complete` ones are looked at once more: an upload may have ended. One whose
    description cannot be read stays: the plugin has written it, perhaps in a way of its next release.
    """
    if any(not one.is_over for one in place.api.find(Backup, names.labels_of(service_id))):
        return
    backups = base_backups.backups_of(place, archived_as)
    for backup_id in backups.ids():
        is_old = backup_id not in complete and backup_id < layout.backup_id_of(before)
        with contextlib.suppress(Failed):
            if is_old and backups.find(backup_id) is None:
                backups.delete(backup_id)


def _discard_older(place: Place, archived_as: str, before: datetime) -> None:
    bucket = archiving.wal_of(place, archived_as).bucket
    found = bucket.objects(layout.wal_prefix(archived_as))
    old = [one.key for one in found if one.written_at < before and segment_named(layout.wal_name(one.key) or "")]
    bucket.delete(old)


def remove_unrestorable(place: Place, service_id: str) -> None:
    """Remove the WAL of a destroyed service that no base backup can be rolled forward with: its snapshots are gone."""
    try:
        if not base_backups.complete(place, service_id):
            remove(place, service_id, service_id)
    except Unavailable as error:
        _log.warning("%s/ stays in the archive, though nothing can be restored from it: %s", service_id, error)


def remove(place: Place, service_id: str, archived_as: str) -> None:
    """Remove all below a name but the WAL that snapshots need; what makes base backups complete goes first.

    A service that is there and not archived any more has no other WAL to roll its snapshots forward with.
    """
    needed = list(_needed_by_snapshots(place, service_id))
    backups = base_backups.backups_of(place, archived_as)
    for backup_id in backups.ids():
        backups.delete(backup_id)
    if needed:
        _discard_before(place, archived_as, min(needed))
    else:
        backups.bucket.delete([one.key for one in backups.bucket.objects(f"{archived_as}/")])


def _needed_by_snapshots(place: Place, service_id: str) -> Iterable[int]:
    for one in place.api.find(VolumeSnapshot, names.labels_of(service_id)):
        found = snapshots.noted(one) or snapshots.begun_with(one)  # of one that is being taken
        if found:
            yield _first_needed(found["start_lsn"])


def _first_needed(lsn: str) -> int:
    """Return the number of the segment that recovery from a snapshot reads first; what it needs before, it has."""
    return lsn_number(lsn) // SEGMENT_BYTES


def _discard_before(place: Place, archived_as: str, number: int) -> int:
    wal = archiving.wal_of(place, archived_as)
    found = [one for one in archiving.segments_of(place, archived_as) if one.number < number]
    wal.bucket.delete([layout.wal_key(archived_as, one.name) for one in found])
    return len(found)
