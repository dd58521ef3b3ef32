"""The WAL archive of one service: its delay, archiving without a copy, and removing segments that are not needed."""

import contextlib
import errno
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from ramet.backends.local.host.files import flush, read, write
from ramet.backends.local.host.own_faults import is_of_disk
from ramet.backends.local.wal.locate import STATUS_DIRECTORY, WAL_DIRECTORY
from ramet.backends.local.wal.segment import Segment, segment_at, segment_named, unreadable

_log = logging.getLogger(__name__)
_SEGMENT_NAME_LENGTH = 24
_HISTORIES = "*.history"
_OF_TIMELINE = re.compile(r"([0-9A-F]{8})\.(?:history|end)")
_TEMPORARY = "archtemp"
_ABANDONED_AFTER_SECONDS = 3600.0
_LATE_SECONDS = 120.0
_MANY_SEGMENTS = 64


def trim(archive: Path, timeline: int, before_lsn: str) -> int:
    """Remove the segments before the one with an LSN on a timeline, and return their number. May run twice.

    Those of earlier timelines are removed wherever they end: no base backup on this one or a later one needs them, and
    a service that is set back again and again never passes their end. The backup history files of the removed segments,
    and old temporary files of an archiver that died, are removed too; `trim_histories` removes those of timelines.
    What the disk refuses to remove stays, and is tried again by the next call.
    """
    removed = _remove(_expendable(archive, segment_at(timeline, before_lsn)))
    return sum(segment_named(path.name) is not None for path in removed)


def trim_histories(archive: Path, before: int, needed: Collection[int]) -> None:
    """Remove the histories of the timelines before one, and the records of their ends, except those `needed`.

    The history of a later timeline names all that led to it. The newest ones stay, so that none is begun twice. What
    the disk refuses to remove stays, and is tried again by the next call.
    """
    found = [(path, _OF_TIMELINE.fullmatch(path.name)) for path in (archive.iterdir() if archive.is_dir() else ())]
    timelines = ((path, int(match[1], 16)) for path, match in found if match is not None)
    _remove(path for path, timeline in timelines if timeline < before and timeline not in needed)


def _remove(paths: Iterable[Path]) -> list[Path]:
    """Remove files that no restore needs; return those that are gone."""
    removed: list[Path] = []
    refused: list[OSError] = []
    for path in paths:
        try:
            path.unlink(missing_ok=True)
            removed.append(path)
        except OSError as error:
            if not is_of_disk(error):
                raise
            refused.append(error)
    if refused:
        _log.warning("%d files that no restore needs cannot be removed, such as %s", len(refused), refused[0])
    return removed


def link_waiting(waiting: Path, wal: Path, archive: Path, clone: Callable[[Path, Path], None]) -> int:
    """Archive the segments that are ready by hard links, and return their number. May run again.

    For servers that never write to a complete segment again (`wal_recycle = off`). PostgreSQL's archiver may archive
    the same segment at the same time: it finds it archived, or replaces it by the same content. `clone` makes a copy
    that shares blocks, for an archive in another subvolume.
    """
    count = 0
    for status in waiting.glob("*.ready"):
        try:
            if segment_named(status.stem) is not None and _linked(wal / status.stem, archive / status.stem, clone):
                status.rename(status.with_suffix(".done"))
                count += 1
        except OSError as error:
            _log.info("segment %s is left to the archiver: %s", status.stem, error)
    return count


def add_histories(wal: Path, archive: Path) -> None:
    """Archive the timeline histories that recovery in single-user mode has written, where no archiver runs.

    May run again. A file that only keeps a timeline from being used is not archived.
    """
    for history in wal.glob(_HISTORIES):
        target = archive / history.name
        if not target.exists() and (content := read(history, errors="surrogateescape"))[:1].isdigit():
            write(target, content, durable=True)


def unarchived(data: Path) -> list[Path]:
    """Return PostgreSQL's marks of the WAL segments in a data directory that are complete and not archived yet."""
    marks = (data / WAL_DIRECTORY / STATUS_DIRECTORY).glob("*.ready")
    return [mark for mark in marks if segment_named(mark.stem) is not None]


def delay(data: Path) -> str | None:
    """Return a sentence that says how far the archiving of a data directory is behind; None when it keeps up."""
    waiting = []
    for mark in unarchived(data):
        with contextlib.suppress(FileNotFoundError):
            waiting.append(mark.stat().st_mtime)
    late = bool(waiting) and time.time() - min(waiting) > _LATE_SECONDS
    if not late and len(waiting) < _MANY_SEGMENTS:
        return None
    minutes = int((time.time() - min(waiting)) // 60)
    return f"Archiving is behind: {len(waiting)} WAL segments are waiting, the oldest for {minutes} minutes."


def _linked(segment: Path, target: Path, clone: Callable[[Path, Path], None]) -> bool:
    """Link a segment into the archive durably; False when the archive has a different file of that name."""
    try:
        os.link(segment, target)
    except FileExistsError:
        if not segment.samefile(target):
            return False
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        if target.exists():
            return False
        clone(segment, target)
    flush(target)
    flush(target.parent)
    return True


def _expendable(archive: Path, first: Segment) -> Iterator[Path]:
    if not archive.is_dir():
        return
    for path in archive.iterdir():
        segment = segment_named(path.name[:_SEGMENT_NAME_LENGTH])
        if (segment is not None and segment < first) or _is_abandoned(path):
            yield path


def _is_abandoned(path: Path) -> bool:
    if not path.name.startswith(_TEMPORARY):
        return False
    try:
        return time.time() - path.stat().st_mtime > _ABANDONED_AFTER_SECONDS
    except FileNotFoundError:
        return False
    except OSError as error:
        unreadable(error)
        return False
