"""Where recovery to a time ends in the archived WAL of a service: found by reading that, proven by a later commit."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ramet.backends.interface.values import Server, SnapshotFacts
from ramet.backends.kubernetes import archiving, stopped
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.wal_reader import WalReader
from ramet.backends.local.sql.commit_beyond import commit_beyond
from ramet.backends.local.wal.boundary import Cut, cut_at_time
from ramet.backends.local.wal.segment import SEGMENT_BYTES, Segment, end_of_records, segment_before, shown_lsn
from ramet.errors import Failed, Unavailable
from ramet.model.snapshot import lsn_number
from ramet.model.timestamps import rfc3339

_ARCHIVED_SECONDS = 60.0


@dataclass(frozen=True)
class RecoveryPoint:
    """Where recovery ends, and the segments that it needs from the base on."""

    cut: Cut
    segments: Sequence[str]


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
        cut, until = Cut(), self.base.end_lsn
        for until in self._ends(live_end):
            cut = self._cut(target, until)
            if cut.first_excluded is not None:
                break
        needed = until if cut.recover_to is None else cut.recover_to.end_lsn
        return RecoveryPoint(cut, [one.name for one in self._segments_until(needed)])

    def bring(self, seconds: float) -> str | None:
        """Give the reader for so many seconds what it reads first; say how far that is, None when all is there.

        That is what is archived until the first later end, or all that is.
        """
        known, number = archived_from(self.place, self.archived_as, self.base), _first_number(self.base)
        end = lsn_number(self.later[0]) if self.later else math.inf
        found = []
        while number in known and known[number].start < end:
            found.append(known[number])
            number += 1
        if self.reader.fetch(archiving.wal_of(self.place, self.archived_as), found, seconds):
            return None
        return f"{self.reader.count()} of {len(found)} archived WAL segments were brought to the pod that reads them"

    def _ends(self, live_end: Callable[[], str]) -> Iterator[str]:
        known = archived_from(self.place, self.archived_as, self.base)
        for lsn in self.later:
            if all(number in known for number in self._numbers_until(lsn)):
                yield lsn
        yield live_end()

    def _cut(self, target: datetime, until: str) -> Cut:
        segments = self._segments_until(until)
        self.reader.fetch(archiving.wal_of(self.place, self.archived_as), segments)
        found = self.reader.ends(self.base.end_lsn, until)
        cut = cut_at_time(found.ends, target, self.base.taken_at)
        if cut.first_excluded is None and found.fault is not None and not _is_blank_end(found.fault[0], until):
            lsn, why = found.fault
            raise Failed("WAL_DAMAGED", f"The archived WAL of {self.archived_as} is damaged at {lsn}: {why}")
        return cut

    def _numbers_until(self, lsn: str) -> range:
        return range(_first_number(self.base), segment_before(self.base.timeline, lsn).number + 1)

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
    while number + 1 in known:
        number += 1
    return max(base.end_lsn, shown_lsn(Segment(base.timeline, number).end), key=lsn_number)


def check_archived(place: Place, server: Server, child: Server) -> None:
    """Raise Unavailable unless the archive has all that a stopped server has committed.

    At its end PostgreSQL begins another segment for its last checkpoint alone, which is not archived.
    """
    control = stopped.read_control(place, server, child.service_id)
    last = segment_before(control.timeline, shown_lsn(end_of_records(control.checkpoint_lsn)))
    if not control.is_clean or not archiving.wal_of(place, server.archive_name).has(last.name):
        raise Unavailable(
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
