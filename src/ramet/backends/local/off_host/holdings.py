"""What the off-host archive has of a service, by listing it."""

from bisect import bisect_right

from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.backends.interface.values import BaseBackup, Holdings
from ramet.backends.local.off_host.download import base_of
from ramet.backends.local.wal.segment import SEGMENT_BYTES, segment_named


def holdings_of(bucket: Bucket, name: str) -> Holdings:
    """Return the complete base backups of a server, each with the WAL from it to the next one."""
    backups = BaseBackups(bucket, name)
    known = {info.backup_id: base_of(info) for info in backups.complete()}
    ordered = sorted(known, key=lambda backup_id: known[backup_id].facts.wal_order)
    firsts = [known[backup_id].segments[0] for backup_id in ordered]
    wal_bytes, segments = [0] * len(ordered), [0] * len(ordered)
    for file, size_bytes in WalArchive(bucket, name).sizes().items() if ordered else ():
        segment = segment_named(file)
        at = -1 if segment is None else bisect_right(firsts, segment) - 1
        if at >= 0:
            wal_bytes[at] += size_bytes
            segments[at] += 1
    sizes = backups.sizes()
    found = []
    for backup_id, count, bytes_after in zip(ordered, segments, wal_bytes, strict=True):
        facts = known[backup_id].facts
        found.append(
            BaseBackup(
                id=backup_id,
                taken_at=facts.taken_at,
                start_lsn=facts.start_lsn,
                end_lsn=facts.end_lsn,
                timeline=facts.timeline,
                size_bytes=facts.size_bytes,
                download_bytes=sizes.get(backup_id, 0),
                wal_bytes=count * SEGMENT_BYTES,
                wal_download_bytes=bytes_after,
            )
        )
    return Holdings(found)
