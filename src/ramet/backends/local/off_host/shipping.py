"""WAL from the local archive of a service to the object store, in order; what was lost before leaves a hole."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import psycopg
from msgspec.structs import replace

from ramet.archive.layout import is_wal_file
from ramet.archive.wal import WalArchive
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host.digests import record_digest
from ramet.backends.local.off_host.exclusive import check_not_replaced
from ramet.backends.local.off_host.progress import Base, Hole, WalProgress, read_progress, write_progress
from ramet.backends.local.restore import snapshots
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import row
from ramet.backends.local.wal.digests import leftovers
from ramet.backends.local.wal.locate import STATUS_DIRECTORY, WAL_DIRECTORY
from ramet.backends.local.wal.segment import SEGMENT_BYTES, Segment, end_of_records, segment_named, segments_in
from ramet.errors import Unavailable
from ramet.model.snapshot import lsn_number

TIMELINE_DIGITS = 8
_QUIET_SEGMENT = timedelta(seconds=45)
# The time comes first: what was committed before it is in the WAL before the LSN.
_STATE = (
    "SELECT now(), pg_current_wal_insert_lsn()::text, pg_current_snapshot()::text,"
    " pg_walfile_name(pg_current_wal_insert_lsn())"
)


@dataclass(frozen=True)
class Seen:
    """The state of a server at a time: everything committed before `at` is in the WAL of `timeline` before `lsn`.

    `transactions` names those that run and the next one: while it is the same, none has ended.
    """

    at: datetime
    lsn: int
    transactions: str
    timeline: int = 1


@dataclass
class Watch:
    """What was seen of a server and is not known to be archived yet, oldest first, and what is."""

    waiting: list[Seen] = field(default_factory=list)
    archived: Seen | None = None

    def add(self, seen: Seen) -> None:
        """Remember a state. Of many that wait, every second one is dropped: the lag is then shown a little too long."""
        if len(self.waiting) >= 1000:
            self.waiting = self.waiting[::2]
        self.waiting.append(seen)

    def archived_until(self, last: Segment | None, base_timeline: int) -> datetime | None:
        """Return the time before which all commits can be restored with the WAL up to a segment; None: not known.

        With a base backup of an earlier timeline nothing that a service did after a restore in place can be restored.
        """
        while self.waiting and self._is_archived(self.waiting[0], last, base_timeline):
            self.archived = self.waiting.pop(0)
        return None if self.archived is None else self.archived.at

    def wants_switch(self, needed_lsn: int = 0) -> bool:
        """Tell whether what is in the current segment has waited long enough for that to be closed early.

        What is in a segment that is closed only waits to be sent. While no transaction has ended since then, there is
        nothing to wait for, unless a base backup needs WAL up to an LSN. The first segment is closed at once.
        """
        if not self.waiting:
            return False
        newest, known = self.waiting[-1], self.archived
        begin = newest.lsn - newest.lsn % SEGMENT_BYTES
        for seen in self.waiting:
            is_open = (seen.timeline, seen.lsn) > (newest.timeline, begin)
            if is_open and (begin < needed_lsn or not _none_has_ended(known, seen)):
                return known is None or newest.at - seen.at > _QUIET_SEGMENT
            known = seen
        return False

    def _is_archived(self, seen: Seen, last: Segment | None, base_timeline: int) -> bool:
        """Tell whether it is archived: its WAL is, or no transaction has ended since a state that is."""
        if seen.timeline > base_timeline:
            return False
        if _none_has_ended(self.archived, seen):
            return True
        return last is not None and (seen.timeline, seen.lsn) <= (last.timeline, last.end)


def _none_has_ended(before: Seen | None, seen: Seen) -> bool:
    """Tell whether no transaction has ended between two states."""
    return before is not None and (before.timeline, before.transactions) == (seen.timeline, seen.transactions)


def see(paths: ServicePaths) -> Seen | None:
    """Return the state of a serving server, None when it does not serve."""
    try:
        with connections.connect(paths, timeout_seconds=2, statement_timeout="2s") as connection:
            at, lsn, transactions, name = row(connection, _STATE)
    except (Unavailable, psycopg.Error):
        return None
    return Seen(at, end_of_records(lsn), transactions, int(name[:TIMELINE_DIGITS], 16))


def switch_segment(paths: ServicePaths) -> None:
    """Close the current WAL segment of a serving server, so that it is archived though it is not full."""
    with (
        contextlib.suppress(Unavailable, psycopg.Error),
        connections.connect(paths, timeout_seconds=2, statement_timeout="2s") as connection,
    ):
        connection.execute("SELECT pg_switch_wal()")


def ship(paths: ServicePaths, wal: WalArchive, seconds: float) -> WalProgress:
    """Send archived WAL files that the store does not have yet, in order, for about `seconds`. May run twice.

    Segments that were lost before they were sent leave a hole. Raises Unavailable when the store does not answer, or
    the data of the service is being replaced.
    """
    progress, deadline = read_progress(paths, WalProgress), time.monotonic() + seconds
    for name in _other_files(paths, progress):
        check_not_replaced(paths)
        record_digest(paths, name, wal.upload(paths.archive / name))
        progress = replace(progress, other_files=(*progress.other_files, name))
        write_progress(paths, progress)
    for segment in _unsent(paths, progress):
        missing = _missing_before(paths, segment, progress)
        if missing is not None and _is_to_come(paths, missing):
            break
        if missing is not None:
            hole = Hole(missing.name, segment.name, progress.archived_until)
            progress = replace(progress, holes=(*progress.holes, hole))
        check_not_replaced(paths)
        record_digest(paths, segment.name, wal.upload(paths.archive / segment.name))
        progress = replace(progress, segment=segment.name)
        write_progress(paths, progress)
        if time.monotonic() > deadline:
            break
    if progress.noted != progress.segment:
        wal.note_end(progress.segment)
        progress = replace(progress, noted=progress.segment)
        write_progress(paths, progress)
    return progress


def waiting_segments(paths: ServicePaths, progress: WalProgress) -> int:
    """Return how many segments of the local archive the store does not have yet."""
    return sum(1 for _ in _unsent(paths, progress))


def timeline_of(progress: WalProgress) -> int:
    """Return the newest timeline of which the store has WAL or the history: that of the service's present data."""
    return max(
        (int(name[:TIMELINE_DIGITS], 16) for name in (progress.segment, *progress.other_files) if name), default=1
    )


def is_left(progress: WalProgress, base: Base) -> bool:
    """Tell whether a service has left the timeline of a base backup: its data was replaced since."""
    begin = segment_named(base.begin_segment)
    return begin is not None and begin.timeline < timeline_of(progress)


def end_of(progress: WalProgress) -> int:
    """Return the LSN before which the store has all WAL that is not in a hole; 0 before the first segment."""
    segment = segment_named(progress.segment)
    return 0 if segment is None else segment.end


def is_behind(progress: WalProgress, base: Base) -> bool:
    """Tell whether the store lacks WAL that a base backup needs to become consistent."""
    last, begin = segment_named(progress.segment), segment_named(base.begin_segment)
    has_begun = last is not None and (begin is None or last.timeline >= begin.timeline)
    return not has_begun or end_of(progress) < lsn_number(base.end_lsn)


def bridged(progress: WalProgress, base: Base) -> WalProgress:
    """Return the progress once a base backup is complete: nothing is restored across a hole before it any more."""
    if is_behind(progress, base):
        return progress
    first = segment_named(base.begin_segment)
    holes = (
        replace(hole, until=base.taken_at)
        if hole.until is None and is_after(hole, None if first is None else first.timeline, base.begin_lsn)
        else hole
        for hole in progress.holes
    )
    # Before the first base backup nothing could be restored anyway.
    return replace(progress, holes=tuple(hole for hole in holes if hole.until is None or hole.since is not None))


def open_hole(progress: WalProgress) -> Hole | None:
    """Return the newest hole without a base backup after it: the archive ends before it."""
    return next((hole for hole in reversed(progress.holes) if hole.until is None), None)


def is_after(hole: Hole, timeline: int | None, lsn: str) -> bool:
    """Tell whether a base backup that begins there needs no WAL of a hole; without a timeline, of the same one."""
    following = segment_named(hole.following)
    if following is None:
        return True
    return (timeline or following.timeline, lsn_number(lsn)) >= (following.timeline, following.start)


def _other_files(paths: ServicePaths, progress: WalProgress) -> list[str]:
    names = (path.name for path in paths.archive.iterdir())
    return sorted(
        name for name in names if is_wal_file(name) and segment_named(name) is None and name not in progress.other_files
    )


def _unsent(paths: ServicePaths, progress: WalProgress) -> Iterator[Segment]:
    """Yield the segments to send, up to one that is being written to the local archive."""
    last, left = segment_named(progress.segment), leftovers(paths)
    for segment in segments_in(paths.archive):
        if segment.name in left or (last is not None and segment <= last):
            continue
        if (paths.archive / segment.name).stat().st_size != SEGMENT_BYTES:
            return
        yield segment


def _missing_before(paths: ServicePaths, segment: Segment, progress: WalProgress) -> Segment | None:
    """Return the first segment that lacks between the last one that was sent and another one.

    A later timeline begins with the number of the segment in which the service left the one before. After a restore in
    place to an earlier LSN the service has all of its timeline from the first snapshot on; what comes before that, by
    the history of the timeline, the copy wrote that was made beside the service.
    """
    last = segment_named(progress.segment)
    if last is None:
        return None
    number = last.number + 1
    if segment.timeline > last.timeline:
        bases = [base for _, base in snapshots.in_wal_order(paths) if base.facts.timeline == segment.timeline]
        number = min([number, *(base.segments[-1].number for base in bases)])
    return Segment(segment.timeline, number) if number < segment.number else None


def _is_to_come(paths: ServicePaths, missing: Segment) -> bool:
    """Tell whether a segment will be in the local archive soon, or is there by now: segments do not come in order.

    One that the disk refused to remove is not sent.
    """
    if missing.name in leftovers(paths):
        return False
    waiting = paths.data / WAL_DIRECTORY / STATUS_DIRECTORY / f"{missing.name}.ready"
    return waiting.exists() or (paths.archive / missing.name).exists()
