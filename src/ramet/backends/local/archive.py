"""The WAL archive of one service: what it holds, and letting go of what no moment needs."""

import time
from collections.abc import Iterator
from pathlib import Path

from ramet.backends.local.wal import Segment, segment_named, segments_in
from ramet.model.snapshot import lsn_number

_SEGMENT_NAME_LENGTH = 24
_TEMPORARY = "archtemp"
_ABANDONED_AFTER_SECONDS = 3600.0


def newest_segment(archive: Path) -> Segment | None:
    """Return the segment that was archived last, or None."""
    return max(segments_in(archive), default=None) if archive.is_dir() else None


def trim(archive: Path, timeline: int, before_lsn: str) -> int:
    """Remove the segments that lie wholly before an LSN; return their number. May run twice.

    Timelines after `timeline` stay, and so do timeline history files. Goes with them: the backup notes of those
    segments, and what an archiver that died left half made long ago.
    """
    count = 0
    for path in _expendable(archive, timeline, lsn_number(before_lsn)):
        path.unlink(missing_ok=True)
        count += segment_named(path.name) is not None
    return count


def _expendable(archive: Path, timeline: int, before: int) -> Iterator[Path]:
    if not archive.is_dir():
        return
    for path in archive.iterdir():
        segment = segment_named(path.name[:_SEGMENT_NAME_LENGTH])
        is_old = segment is not None and segment.timeline <= timeline and segment.end <= before
        if is_old or _is_abandoned(path):
            yield path


def _is_abandoned(path: Path) -> bool:
    if not path.name.startswith(_TEMPORARY):
        return False
    try:
        return time.time() - path.stat().st_mtime > _ABANDONED_AFTER_SECONDS
    except FileNotFoundError:
        return False
