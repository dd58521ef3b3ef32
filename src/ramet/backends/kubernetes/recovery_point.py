"""Where recovery to a time ends in the archived WAL of a service: found by reading that, proven by a later commit."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from ramet.backends.interface.values import Server, SnapshotFacts
from ramet.backends.kubernetes import archiving, stopped
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.wal_reader import WalReader
from ramet.backends.local.sql.commit_beyond import commit_beyond
from ramet.backends.local.wal.boundary import Cut, CutSearch
from ramet.backends.local.wal.reading import Position, is_within_record
from ramet.backends.local.wal.segment import SEGMENT_BYTES, Segment, segment_before, shown_lsn
from ramet.backends.local.wal.waldump import TransactionEnd
from ramet.errors import Failed
from ramet.model.snapshot import lsn_number
from ramet.model.timestamps import rfc3339

_ARCHIVED_SECONDS = 60.0


@dataclass(frozen=True)
class RecoveryPoint:
    """Where recovery ends, and the segments that it needs from the base on."""

    cut: Cut
    segments: Sequence[str]


@dataclass(kw_only=True)
class Reading(Position):
    """How far a search is: WAL was read, last of the segment `last`, and `found` has what is needed of it."""

    base_lsn: str
    found: CutSearch
    last: Segment | None = None

    def take(self, ends: Sequence[TransactionEnd], begun: Iterable[int]) -> None:
        """Take what was read; `begun` are the numbers of the segments in which records begin, as far as is known."""
        self.found.read(self.advance(ends, begun))


@dataclass(frozen=True)
class Search:
    """One search, for a fork. `later` are the ends of later base backups or snapshots, in the order of the WAL."""

    place: Place
    reader: WalReader
    archived_as: str
    base: SnapshotFacts
    later: Sequence[str]

    def find(self, target: datetime, live_end: Callable[[], str]) -> RecoveryPoint:
        """Return where recovery to a time ends. WAL is read to later ends, and last to the one of the service.

        Raises Failed, with its name, for the first segment that is missing or damaged.
        """
        reading, cut, until = self._resumed(target), Cut(), self.base.end_lsn
        for until in self._ends(live_end):
            self._read(reading, until)
            cut = reading.found.cut()
            if cut.first_excluded is not None:
                break
        needed = until if cut.recover_to is None else cut.recover_to.end_lsn
        return RecoveryPoint(cut, [one.name for one in self._segments_until(needed)])

    def bring(self, target: datetime, seconds: float) -> str | None:
        """Have WAL read for so many seconds; say how far that is, None when all was that comes first.

        That is what is archived until the first later end, or all that is.
        """
        reading = self._resumed(target)
        end = min([archived_end(self.place, self.archived_as, self.base), *self.later[:1]], key=lsn_number)
        if self._read(reading, end, seconds):
            return None
        numbers = self._numbers_until(end)
        brought = reading.start // SEGMENT_BYTES - numbers.start + self.reader.count()
        return f"{brought} of {len(numbers)} archived WAL segments were brought to the pod that reads them"

    def _resumed(self, target: datetime) -> Reading:
        """Return what was noted, unless it is of another search, or a later timeline has replaced what was read."""
        text = self.reader.noted()
        noted = None if text is None else msgspec.json.decode(text, type=Reading)
        if noted is not None and (noted.base_lsn, noted.found.target) == (self.base.end_lsn, target):
            last = noted.last
            if last is None or archived_from(self.place, self.archived_as, self.base).get(last.number) == last:
                return noted
        lsn = lsn_number(self.base.end_lsn)
        found = CutSearch.begin(target, self.base.taken_at)
        return Reading(until=lsn, start=lsn, base_lsn=self.base.end_lsn, found=found)

    def _read(self, reading: Reading, until: str, seconds: float = math.inf) -> bool:
        """Read on to an LSN, some segments at a time; False: not all within that time."""
        deadline, end = time.monotonic() + seconds, lsn_number(until)
        archive, segments = archiving.wal_of(self.place, self.archived_as), self._segments_until(until)
        while reading.until < end:
            stop = reading.next_stop(end)
            needed = [one for one in segments if reading.start < one.end and one.start < stop]
            if not self.reader.fetch(archive, needed, deadline - time.monotonic()):
                return False
            stretch = self.reader.ends(reading.start, stop)
            reading.last, reading.until = needed[-1], stop
            if not (stop < end and is_within_record(stretch, len(needed))):
                reading.take(stretch.ends, self.reader.begun)
                if stretch.fault is not None:
                    self._check_fault(reading, *stretch.fault, until)
                    reading.until = end
            self.reader.note(msgspec.json.encode(reading).decode())
        return True

    def _check_fault(self, reading: Reading, lsn: str, why: str, until: str) -> None:
        """Raise Failed for WAL that ends early, unless recovery stops before, or it is blank behind its last record."""
        is_blank = reading.until == lsn_number(until) and _is_blank_end(lsn, until)
        if reading.found.cut().first_excluded is None and not is_blank:
            raise Failed("WAL_DAMAGED", f"The archived WAL of {self.archived_as} is damaged at {lsn}: {why}")

    def _ends(self, live_end: Callable[[], str]) -> Iterator[str]:
        known = archived_from(self.place, self.archived_as, self.base)
        for lsn in self.later:
            if all(number in known for number in self._numbers_until(lsn)):
                yield lsn
        yield live_end()

    def _numbers_until(self, lsn: str) -> range:
        first = _first_number(self.base)
        behind = first if lsn == self.base.end_lsn else segment_before(self.base.timeline, lsn).number + 1
        return range(first, behind)

    def _segments_until(self, lsn: str) -> list[Segment]:
        """Return the archived segments from the base to an LSN. Raises Failed for the first one that is missing."""
        known = archived_from(self.place, self.archived_as, self.base)
        for number in self._numbers_until(lsn):
            if number not in known:
                raise Failed(
                    "WAL_MISSING",
                    f"WAL segment {Segment(self.base.timeline, number).name} of {self.archived_as}"
                    " is missing from the archive",
                    f"Nearest restorable time: {rfc3339(self.base.taken_at)}.",
                )
        return [known[number] for number in self._numbers_until(lsn)]


def archived_from(place: Place, archived_as: str, base: SnapshotFacts) -> dict[int, Segment]:
    """Return the archived segments from the end of a base on, by their numbers."""
    before = Segment(base.timeline, max(0, _first_number(base) - 1))
    return archiving.newest_by_number(archiving.segments_of(place, archived_as, before.name))


def live_end(place: Place, server: Server, target: datetime) -> str:
    """Return the end of the WAL of a serving service after a commit beyond a time; all until there is archived.

    Raises Unavailable when the server does not serve, its clock is just before the target, or its archive is behind.
    """
    lsn = commit_beyond(place.paths(server), target)
    archiving.await_archived(place, server, archiving.close_segment(place, server), _ARCHIVED_SECONDS)
    return lsn


def archived_end(place: Place, archived_as: str, base: SnapshotFacts) -> str:
    """Return the end of the archived WAL from a base on, before anything is missing."""
    known, number = archived_from(place, archived_as, base), segment_before(base.timeline, base.end_lsn).number
    if not known:  # as of a server that was stopped: the segment of its last checkpoint is archived when it runs again
        return base.end_lsn
    while number + 1 in known:
        number += 1
    return max(base.end_lsn, shown_lsn(Segment(base.timeline, number).end), key=lsn_number)


def check_archived(place: Place, server: Server, child: Server) -> None:
    """Raise Failed unless the archive has all that a stopped server has committed: nothing is archived any more."""
    control = stopped.read_control(place, server, child.service_id)
    last = stopped.last_segment_of(control)
    if not control.is_clean or not archiving.wal_of(place, server.archive_name).has(last.name):
        raise Failed(
            "ARCHIVE_BEHIND",
            f"The archive is not known to have all WAL of service {server.service_id}, which is stopped",
            "Start it, wait until its archive has caught up, and fork it then; or send fork_strategy NOW.",
        )


def _first_number(base: SnapshotFacts) -> int:
    """Return the number of the segment with the first WAL after a base."""
    return lsn_number(base.end_lsn) // SEGMENT_BYTES


def _is_blank_end(fault_lsn: str, until: str) -> bool:
    """Tell whether WAL ends in the last segment that was read: what follows a switch there is blank."""
    return lsn_number(until) % SEGMENT_BYTES == 0 and lsn_number(fault_lsn) >= lsn_number(until) - SEGMENT_BYTES
