"""Gaps in the restore window because of missing WAL, found by the names and sizes of files.

The content of segments is read only next to a gap; `wal.digests` and each capture verify it.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore import snapshots, timeline_ends
from ramet.backends.local.restore.base_backup import Base
from ramet.backends.local.restore.recovery_target import WalReader, last_reachable
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.wal.locate import WAL_DIRECTORY, WalSource, live_and_archived
from ramet.backends.local.wal.segment import (
    SEGMENT_BYTES,
    Segment,
    segment_at,
    segment_before,
    segment_named,
    unreadable,
)
from ramet.errors import Failed
from ramet.machine.installation import Installations
from ramet.model.gaps import Gap
from ramet.model.snapshot import Snapshot, in_wal_order, lsn_number

_ANY_LATER = 1 << 32
_MICROSECOND = timedelta(microseconds=1)


def gaps(
    driver: Driver,
    paths: ServicePaths,
    installations: Installations,
    known: Sequence[Snapshot],
    damaged: Mapping[str, str],
) -> list[Gap]:
    """Return the gaps after the oldest of the snapshots `known`; `damaged` has the reason for each damaged segment.

    Where the data of the service was replaced, or it was promoted, another timeline begins, whose WAL need not continue
    the one before.
    """
    stretches = _stretches(paths, in_wal_order(known))
    ends = [following[0].taken_at for following in stretches[1:]]
    found = []
    for number, bases in enumerate(stretches):
        first = segment_at(bases[0].timeline, bases[0].start_lsn)
        until = stretches[number + 1][0].timeline if number + 1 < len(stretches) else None
        there = _there(paths, range(first.timeline, until or _ANY_LATER), damaged)
        for base in bases:
            there.update(_held_by(paths, base))
        stretch = (bases, ends[number] if number < len(ends) else None)
        last = first if until is None else _last_before(paths, bases[-1], there)
        holes = _holes(first, there, last)
        found += [_gap(driver, paths, installations, stretch, hole, damaged) for hole in holes]
    return found


def _stretches(paths: ServicePaths, bases: Sequence[Snapshot]) -> list[list[Snapshot]]:
    """Return the snapshots in groups whose WAL is one line: all those of a standby, else those of each timeline."""
    found = [list(group) for _, group in groupby(bases, key=lambda base: base.timeline)]
    if len(found) == 1:
        return found
    return [list(group) for _, group in groupby(bases, key=lambda base: _line_of(paths, base))]


def _line_of(paths: ServicePaths, base: Snapshot) -> int:
    return 0 if _is_of_standby(paths, base) else base.timeline


def _last_before(paths: ServicePaths, newest: Snapshot, there: set[int]) -> Segment:
    """Return the last segment that there was of a timeline that was left; that of a standby is in no archive."""
    if _is_of_standby(paths, newest):
        return Segment(newest.timeline, max(there, default=_first(newest).number) + 1)
    return timeline_ends.recorded(paths.archive, newest.timeline) or _first(newest)


def _is_of_standby(paths: ServicePaths, base: Snapshot) -> bool:
    try:
        return snapshots.base_of(paths, base.id).of_standby
    except Failed:  # its files are missing; forks from it say so
        return False


def _held_by(paths: ServicePaths, base: Snapshot) -> range:
    """Return the segments that a snapshot has completely: of its last one, that of a standby has only the beginning."""
    if _is_of_standby(paths, base):
        return range(_first(base).number, lsn_number(base.end_lsn) // SEGMENT_BYTES)
    return range(_first(base).number, segment_before(base.timeline, base.end_lsn).number + 1)


def _gap(
    driver: Driver,
    paths: ServicePaths,
    installations: Installations,
    stretch: tuple[Sequence[Snapshot], datetime | None],
    hole: tuple[Segment, Segment],
    damaged: Mapping[str, str],
) -> Gap:
    (bases, ends_at), (missing, last_missing) = stretch, hole
    before = [base for base in bases if _first(base).number <= missing.number]
    after = [base for base in bases if _first(base).number > last_missing.number]
    newest = before[-1].id
    base = snapshots.base_of(paths, newest)
    places = [snapshots.data_of(paths, one.id) / WAL_DIRECTORY for one in reversed(before)]
    follows = base.of_standby and ends_at is None  # once it is promoted, its later timelines are not of the source
    source = WalSource(driver, [*live_and_archived(paths), *places], base.system_identifier, follows_timelines=follows)
    reader = WalReader(source, _pg_waldump(installations, snapshots.data_of(paths, newest)))
    if base.of_standby:
        begins_at = _begin_of_standby(reader, snapshots.base_of(paths, before[0].id), missing, missing.name in damaged)
    else:
        begins_at = last_reachable(reader, base, missing) or base.facts.taken_at
    return Gap(
        begins_at=begins_at,
        ends_at=after[0].taken_at if after else ends_at,
        reason=f"WAL segment {missing.name} {damaged.get(missing.name, 'is missing')}",
    )


def _pg_waldump(installations: Installations, data: Path) -> str:
    """Return the program that reads the WAL of a data directory: that of its major version."""
    major = int(files.read_existing(data / "PG_VERSION"))
    return installations.by_major.get(major, installations.default).program("pg_waldump")


def _begin_of_standby(reader: WalReader, first: Base, missing: Segment, is_altered: bool) -> datetime:
    """Return the last time before a gap to which a standby can be restored: just before the last known commit.

    The time of its snapshots is too late: they do not have all that was committed in the source by then. The last
    snapshot before the gap may have the beginning of the first segment that is missing.
    """
    hole = missing if is_altered else Segment(missing.timeline, missing.number + 1)
    return last_reachable(reader, first, hole) or first.facts.taken_at - _MICROSECOND


def _first(base: Snapshot) -> Segment:
    return segment_at(base.timeline, base.start_lsn)


def _there(paths: ServicePaths, timelines: range, damaged: Mapping[str, str]) -> set[int]:
    """Return the numbers of the segments. The archive is listed last: a segment may move there at any time."""
    numbers = set()
    for directory in reversed(live_and_archived(paths)):
        for path in _files(directory):
            if directory == paths.archive and path.name in damaged:
                continue
            segment = segment_named(path.name)
            if segment is not None and segment.timeline in timelines and _is_whole(path):
                numbers.add(segment.number)
    return numbers


def _files(directory: Path) -> Iterator[Path]:
    return directory.iterdir() if directory.is_dir() else iter(())


def _is_whole(path: Path) -> bool:
    try:
        return path.stat().st_size == SEGMENT_BYTES
    except FileNotFoundError:  # it was just moved to the archive
        return True
    except OSError as error:
        unreadable(error)
        return False


def _holes(first: Segment, there: set[int], last: Segment) -> Iterator[tuple[Segment, Segment]]:
    """Yield the first and the last segment of each hole, up to the last segment that there was."""
    begin = None
    end = max([last.number, *there]) + 1
    for number in range(first.number, end + 1):
        is_hole = number not in there and number < end
        if is_hole and begin is None:
            begin = number
        if not is_hole and begin is not None:
            yield Segment(first.timeline, begin), Segment(first.timeline, number - 1)
            begin = None
