"""What of an archive no time in its window needs. The order is that of the WAL, because clocks may be wrong."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from ramet.archive.backup_info import BackupInfo
from ramet.backends.local.wal.segment import Segment, segment_named
from ramet.model.snapshot import lsn_number


def expired_bases(bases: Sequence[BackupInfo], wal: Iterable[str], before: datetime) -> list[BackupInfo]:
    """Return the base backups that no restore to a time from `before` on needs.

    Needed are those that ended later, the last one before, and where a later timeline has WAL, on each earlier timeline
    those from which recovery can still follow to one after it: it may have left that of the last one before it.
    """
    ordered = sorted(bases, key=_wal_order)
    done = [base for base in ordered if base.end_time <= before]
    if not done:
        return []
    last = done[-1]
    needed = {last.backup_id}
    segments = [segment for segment in map(segment_named, wal) if segment is not None]
    if any(segment.timeline > last.timeline for segment in segments):
        for timeline in {base.timeline for base in done}:
            of_timeline = [base for base in done if base.timeline == timeline]
            for number in _branches(segments, timeline):
                needed |= set(_newest_until(number, of_timeline))
    return [base for base in done if base.backup_id not in needed]


def expired_wal(kept: Sequence[BackupInfo], wal: Iterable[str]) -> Iterator[str]:
    """Yield the WAL segments that none of the base backups needs: each needs those from its first one on.

    Those of a timeline after all of them are for a base backup that is to come.
    """
    firsts = [segment for base in kept if (segment := segment_named(base.begin_segment)) is not None]
    last = max(first.timeline for first in firsts)
    for name in wal:
        segment = segment_named(name)
        is_known = segment is not None and segment.timeline <= last
        if segment is not None and is_known and not any(_follows(segment, first) for first in firsts):
            yield name


def _follows(segment: Segment, first: Segment) -> bool:
    return first.timeline <= segment.timeline and first.number <= segment.number


def _wal_order(base: BackupInfo) -> tuple[int, int]:
    return base.timeline, lsn_number(base.begin_lsn)


def _branches(segments: Iterable[Segment], after: int) -> list[int]:
    """Return the number of the first segment of each timeline after one."""
    firsts = dict[int, int]()
    for segment in segments:
        if segment.timeline > after:
            firsts[segment.timeline] = min(segment.number, firsts.get(segment.timeline, segment.number))
    return list(firsts.values())


def _newest_until(number: int, bases: Sequence[BackupInfo]) -> Iterator[str]:
    """Yield the last base backup that ends before a segment, and those that end in it, before or after a branch."""
    before = [base for base in bases if _last_segment(base) < number]
    for base in [*before[-1:], *(base for base in bases if _last_segment(base) == number)]:
        yield base.backup_id


def _last_segment(base: BackupInfo) -> int:
    segment = segment_named(base.end_segment)
    return 0 if segment is None else segment.number
