"""Checksums of archived WAL segments, recorded once and verified regularly.

They are stored in the service's directory, not in the archive. PostgreSQL verifies each record that it replays; this
finds an altered segment before a fork needs it, and alterations that the checksums of records do not cover.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Set
from contextlib import AbstractContextManager
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.wal import blank_tail
from ramet.backends.local.wal.segment import Segment, segment_at, segment_named, segments_in, unreadable
from ramet.errors import Failed

_NOTES = "archive.digests"
_FAULTS = "archive.faults"
_LEFTOVERS = "archive.leftovers"
_DIGEST_BYTES = 32
_DIGEST = re.compile(r"[0-9a-f]{64}")
ALTERED = "was altered after it was archived"


def digests(paths: ServicePaths) -> dict[str, str]:
    """Return the recorded checksums by the name of the segment."""
    return parsed(files.read(paths.root / _NOTES))


def parsed(lines: str) -> dict[str, str]:
    """Return checksums by the name of the file; a line that was cut off is left out."""
    found = (line.split() for line in lines.splitlines())
    return {parts[0]: parts[1] for parts in found if len(parts) == 2 and _DIGEST.fullmatch(parts[1])}


def recorded_files(paths: ServicePaths) -> dict[Path, str]:
    """Return the recorded checksums by the path of the segment."""
    return {paths.archive / name: digest for name, digest in digests(paths).items()}


def record(paths: ServicePaths, seconds: float, *, frees: bool = True) -> int:
    """Record the checksums of new segments, for about `seconds`; return the number of new ones. May run twice.

    With `frees` the blocks of its blank end are freed then, as its pages are cached: only where servers do not recycle
    segments, since one that writes into holes later might find the storage full.
    A segment that the disk cannot read has none, and does not keep those behind it from having theirs; verification
    reports it.
    A recorded checksum is never replaced, nor dropped because its segment is missing: verification finds a segment that
    comes back altered.
    """
    if not paths.archive.is_dir():
        return 0
    with _locked(paths):
        kept = digests(paths)
        added = _new_digests(paths.archive, kept.keys() | leftovers(paths), time.monotonic() + seconds, frees=frees)
        if added:
            _write_notes(paths, kept | added)
        return len(added)


def _new_digests(archive: Path, known: Set[str], deadline: float, *, frees: bool) -> dict[str, str]:
    added = {}
    # The newest first: a disk may take long to fail for a segment that it cannot read, at each call.
    new = [segment.name for segment in reversed(segments_in(archive)) if segment.name not in known]
    for name in new:
        if name == new[0] or time.monotonic() < deadline:
            try:
                added[name] = digest_of(archive / name)
                if frees:
                    blank_tail.free(archive / name)
            except FileNotFoundError:
                pass  # it has just been removed
            except OSError as error:
                unreadable(error)
    return added


def forget(paths: ServicePaths) -> None:
    """Drop what is known of an archive that is removed as a whole. May run twice."""
    for name in (_NOTES, _FAULTS, _LEFTOVERS):
        (paths.root / name).unlink(missing_ok=True)


def discard(paths: ServicePaths, timeline: int, before_lsn: str) -> None:
    """Drop the checksums of the segments that `archive.trim` removes for the same timeline and LSN. May run twice.

    Those that it could not remove are noted as leftovers.
    """
    first = segment_at(timeline, before_lsn)
    _drop(paths, lambda name: (segment := segment_named(name)) is not None and segment < first)
    left = {segment.name for segment in _segments_of(paths) if segment < first}
    if left != leftovers(paths):
        files.write(paths.root / _LEFTOVERS, "\n".join(sorted(left)))


def leftovers(paths: ServicePaths) -> frozenset[str]:
    """Return the segments that no restore needs, and the disk refused to remove: it may fail to read them, too."""
    return frozenset(files.read(paths.root / _LEFTOVERS).split())


def discard_after(paths: ServicePaths, timeline: int) -> None:
    """Drop the checksums of segments of timelines after `timeline`. May run twice."""
    _drop(paths, lambda name: (segment := segment_named(name)) is not None and segment.timeline > timeline)


def _drop(paths: ServicePaths, is_dropped: Callable[[str], bool]) -> None:
    if not paths.root.is_dir():
        return
    with _locked(paths):
        noted = digests(paths)
        kept = {name: digest for name, digest in noted.items() if not is_dropped(name)}
        if len(kept) < len(noted):
            _write_notes(paths, kept)


def _locked(paths: ServicePaths) -> AbstractContextManager[None]:
    """Prevent others from replacing the checksums, or a snapshot and maintenance undo what the other one wrote."""
    return files.locked(paths.root, flags=os.O_DIRECTORY)


def _write_notes(paths: ServicePaths, notes: Mapping[str, str]) -> None:
    lines = "".join(f"{name} {digest}\n" for name, digest in sorted(notes.items()))
    files.write(paths.root / _NOTES, lines, durable=True)


def verify(paths: ServicePaths, after: str, seconds: float) -> str | None:
    """Compare the segments whose names follow `after` with their recorded checksums, for about `seconds`.

    Of one that has none it is only verified that it can be read: the disk may never have been able to. Leftovers are
    not read.
    Returns the name to continue after, None at the end. `faults` returns the damaged segments.
    """
    noted = digests(paths)
    found = faults(paths) if after else {}
    deadline = time.monotonic() + seconds
    reached: str | None = None
    there = {segment.name for segment in _segments_of(paths)}
    for name in sorted(name for name in (noted.keys() | there) - leftovers(paths) if name > after):
        if fault := _fault_of(paths.archive / name, noted.get(name)):
            found[name] = fault
        if time.monotonic() > deadline:
            reached = name
            break
    files.write(paths.root / _FAULTS, json.dumps(found), durable=True)
    return reached


def _segments_of(paths: ServicePaths) -> list[Segment]:
    return segments_in(paths.archive) if paths.archive.is_dir() else []


def faults(paths: ServicePaths) -> dict[str, str]:
    """Return the damaged segments of the last verification: the fault by name, as the predicate of a sentence."""
    found: dict[str, str] = json.loads(files.read(paths.root / _FAULTS) or "{}")
    return found


def check(paths: ServicePaths) -> None:
    """Raise Failed when the last verification found a damaged segment."""
    found = sorted(faults(paths).items())
    if found:
        name, fault = found[0]
        raise Failed(
            "ARCHIVE_DAMAGED",
            f"WAL segment {name} in the archive of service {paths.service_id} {fault}",
            f"{len(found)} such segments; the restore window shows the times that need them.",
        )


def checksum_fault(path: Path, noted: str | None) -> str | None:
    """Return what is wrong with a segment by its recorded checksum; None without a record, or when it is missing."""
    return None if noted is None else _fault_of(path, noted)


def _fault_of(path: Path, noted: str | None) -> str | None:
    try:
        return None if noted in (None, digest_of(path)) else ALTERED
    except FileNotFoundError:
        return None
    except OSError as error:
        return unreadable(error)


def digest_of(path: Path) -> str:
    """Return the checksum of a file."""
    with files.plain(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_DIGEST_BYTES)).hexdigest()
