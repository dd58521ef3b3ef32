"""Whether archived WAL is still what was archived: a digest of each segment, noted once and compared ever after.

The notes lie beside the archive, not in it. PostgreSQL verifies each record that it replays; this finds an altered
segment before anybody needs it, and one whose alteration a checksum of records would not show.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.wal.segment import segment_named, segments_in
from ramet.errors import Failed
from ramet.model.snapshot import lsn_number

_NOTES = "archive.digests"
_FAULTS = "archive.faults"
_DIGEST_BYTES = 32
ALTERED = "was altered after it was archived"


def digests(paths: ServicePaths) -> dict[str, str]:
    """Return the digests that were noted, by the name of the segment."""
    try:
        lines = (paths.root / _NOTES).read_text().splitlines()
    except FileNotFoundError:
        return {}
    return dict(parts for line in lines if len(parts := line.split()) == 2)


def recorded_files(paths: ServicePaths) -> dict[Path, str]:
    """Return the digests that were noted, by the path of the segment."""
    return {paths.archive / name: digest for name, digest in digests(paths).items()}


def record(paths: ServicePaths, seconds: float) -> int:
    """Note the digests of segments that have none yet, for about `seconds`; return how many were noted. May run twice.

    A note is never replaced, nor dropped because its segment is missing: what comes back altered is found out.
    """
    noted = digests(paths)
    there = [segment.name for segment in segments_in(paths.archive)] if paths.archive.is_dir() else []
    deadline = time.monotonic() + seconds
    added = 0
    kept = dict(noted)
    for name in there:
        if name not in kept and time.monotonic() < deadline:
            try:
                kept[name] = digest_of(paths.archive / name)
            except FileNotFoundError:  # it has just been trimmed
                continue
            added += 1
    if added:
        _write_notes(paths, kept)
    return added


def discard(paths: ServicePaths, timeline: int, before_lsn: str) -> None:
    """Drop the notes of the segments that `archive.trim` removes for the same timeline and LSN. May run twice."""
    noted, before = digests(paths), lsn_number(before_lsn)
    kept = {name: digest for name, digest in noted.items() if not _is_trimmed(name, timeline, before)}
    if len(kept) < len(noted):
        _write_notes(paths, kept)


def _is_trimmed(name: str, timeline: int, before: int) -> bool:
    segment = segment_named(name)
    return segment is not None and segment.timeline <= timeline and segment.end <= before


def _write_notes(paths: ServicePaths, notes: Mapping[str, str]) -> None:
    files.write(paths.root / _NOTES, "".join(f"{name} {digest}\n" for name, digest in sorted(notes.items())))


def verify(paths: ServicePaths, after: str, seconds: float) -> str | None:
    """Compare the segments whose names follow `after` with their notes, for about `seconds`.

    Return the name to go on from, None at the end. What is wrong is kept for `faults`.
    """
    noted = digests(paths)
    found = faults(paths) if after else {}
    deadline = time.monotonic() + seconds
    reached: str | None = None
    for name in sorted(name for name in noted if name > after):
        if not is_intact(paths.archive / name, noted[name]):
            found[name] = ALTERED
        if time.monotonic() > deadline:
            reached = name
            break
    files.write(paths.root / _FAULTS, json.dumps(found))
    return reached


def faults(paths: ServicePaths) -> dict[str, str]:
    """Return what the last verification found wrong, by segment: the end of a sentence that begins with its name."""
    try:
        found: dict[str, str] = json.loads((paths.root / _FAULTS).read_text())
    except FileNotFoundError:
        return {}
    return found


def check(paths: ServicePaths) -> None:
    """Raise Failed when the last verification found anything wrong."""
    found = sorted(faults(paths).items())
    if found:
        name, fault = found[0]
        raise Failed(
            "ARCHIVE_DAMAGED",
            f"WAL segment {name} in the archive of service {paths.service_id} {fault}",
            f"{len(found)} such segments; the restore window shows what cannot be had without them.",
        )


def is_intact(path: Path, noted: str | None) -> bool:
    """Tell whether a segment has the digest that was noted; one without a note, or that is gone, is not accused."""
    try:
        return noted is None or digest_of(path) == noted
    except FileNotFoundError:
        return True


def digest_of(path: Path) -> str:
    """Return the digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_DIGEST_BYTES)).hexdigest()
