"""Gaps in the restore window because of missing WAL, found by the names and sizes of files.

The content of segments is read only next to a gap; `wal.digests` and each capture verify it.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore import snapshots
from ramet.backends.local.restore.recovery_target import WalReader, last_reachable
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.wal.locate import WAL_DIRECTORY, WalSource, live_and_archived
from ramet.backends.local.wal.segment import SEGMENT_BYTES, Segment, segment_at, segment_before, segment_named
from ramet.model.gaps import Gap
from ramet.model.snapshot import Snapshot, in_wal_order


def gaps(
    driver: Driver, paths: ServicePaths, pg_waldump: str, known: Sequence[Snapshot], damaged: Mapping[str, str]
) -> list[Gap]:
    """Return the gaps after the oldest of the snapshots `known`; `damaged` has the reason for each damaged segment."""
    bases = in_wal_order(known)
    if not bases:
        return []
    first = segment_at(bases[0].timeline, bases[0].start_lsn)
    there = _there(paths, first.timeline, damaged)
    for base in bases:
        there.update(range(_first(base).number, segment_before(base.timeline, base.end_lsn).number + 1))
    return [_gap(driver, paths, pg_waldump, bases, hole, damaged) for hole in _holes(first, there)]


def _gap(
    driver: Driver,
    paths: ServicePaths,
    pg_waldump: str,
    bases: Sequence[Snapshot],
    hole: tuple[Segment, Segment],
    damaged: Mapping[str, str],
) -> Gap:
    missing, last_missing = hole
    before = [base for base in bases if _first(base).number <= missing.number][-1]
    after = [base for base in bases if _first(base).number > last_missing.number]
    base = snapshots.base_of(paths, before.id)
    places = [*live_and_archived(paths), snapshots.data_of(paths, before.id) / WAL_DIRECTORY]
    reader = WalReader(WalSource(driver, places, base.system_identifier), pg_waldump)
    reached = last_reachable(reader, base, missing)
    return Gap(
        begins_at=before.taken_at if reached is None else max(reached, before.taken_at),
        ends_at=after[0].taken_at if after else None,
        reason=f"WAL segment {missing.name} {damaged.get(missing.name, 'is missing')}",
    )


def _first(base: Snapshot) -> Segment:
    return segment_at(base.timeline, base.start_lsn)


def _there(paths: ServicePaths, timeline: int, damaged: Mapping[str, str]) -> set[int]:
    numbers = set()
    for directory in live_and_archived(paths):
        for path in _files(directory):
            if directory == paths.archive and path.name in damaged:
                continue
            segment = segment_named(path.name)
            if segment is not None and segment.timeline >= timeline and _is_whole(path):
                numbers.add(segment.number)
    return numbers


def _files(directory: Path) -> Iterator[Path]:
    return directory.iterdir() if directory.is_dir() else iter(())


def _is_whole(path: Path) -> bool:
    try:
        return path.stat().st_size == SEGMENT_BYTES
    except FileNotFoundError:  # it was just moved to the archive
        return True


def _holes(first: Segment, there: set[int]) -> Iterator[tuple[Segment, Segment]]:
    begin = None
    for number in range(first.number, max(there, default=first.number) + 1):
        if number not in there and begin is None:
            begin = number
        if number in there and begin is not None:
            yield Segment(first.timeline, begin), Segment(first.timeline, number - 1)
            begin = None
