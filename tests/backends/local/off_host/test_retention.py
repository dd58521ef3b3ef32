"""Retention: over random histories with timelines, every time of the window that could be restored still can be."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ramet.archive.backup_info import BackupInfo
from ramet.backends.local.off_host.retention import expired_bases, expired_wal
from ramet.backends.local.wal.segment import SEGMENT_BYTES, Segment, segment_at, shown_lsn
from tests.archive.test_base_backups import INFO

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class History:
    """What happened to a service: at each time it was at an LSN of a timeline. A timeline begins at a branch."""

    timeline: int = 1
    lsn: int = 3 * SEGMENT_BYTES
    branches: dict[int, tuple[int, int]] = field(default_factory=dict)  # timeline -> its parent, the LSN
    places: list[tuple[int, int]] = field(default_factory=list)  # at each time
    bases: list[BackupInfo] = field(default_factory=list)
    wal: set[Segment] = field(default_factory=set)

    def write(self, size_bytes: int) -> None:
        """Write WAL, and archive all segments that it touches."""
        first, self.lsn = self.lsn // SEGMENT_BYTES, self.lsn + size_bytes
        self.wal |= {Segment(self.timeline, number) for number in range(first, self.lsn // SEGMENT_BYTES + 1)}
        self.places.append((self.timeline, self.lsn))

    def back_up(self) -> None:
        """Take a base backup: it begins and ends at two LSNs, maybe in two segments."""
        begin = self.lsn
        self.write(SEGMENT_BYTES // 3)
        now = START + timedelta(hours=len(self.places) - 1)
        self.bases.append(
            replace(
                INFO,
                backup_id=f"{len(self.bases):08d}T000000",
                timeline=self.timeline,
                begin_time=now,
                end_time=now,
                begin_lsn=shown_lsn(begin),
                end_lsn=shown_lsn(self.lsn),
                begin_segment=segment_at(self.timeline, shown_lsn(begin)).name,
                end_segment=segment_at(self.timeline, shown_lsn(self.lsn)).name,
            )
        )

    def recover(self, back: int) -> None:
        """Recover the service to an earlier time, on a new timeline."""
        if self.places:
            parent, lsn = self.places[max(0, len(self.places) - 1 - back)]
            self.timeline = max(self.branches, default=1) + 1
            self.branches[self.timeline] = (parent, lsn)
            self.lsn = lsn
            self.write(100)

    def path(self, timeline: int, lsn: int) -> list[tuple[int, int]]:
        """Return the timelines that lead to a place, newest first, each with the LSN at which it was left."""
        found = [(timeline, lsn)]
        while timeline in self.branches:
            timeline, branch = self.branches[timeline]
            lsn = min(lsn, branch)
            found.append((timeline, lsn))
        return found

    def restorable(self, bases: list[BackupInfo], wal: set[str]) -> set[int]:
        """Return the times that can be restored."""
        return {time for time, place in enumerate(self.places) if any(self._leads(b, wal, *place) for b in bases)}

    def _leads(self, base: BackupInfo, wal: set[str], timeline: int, lsn: int) -> bool:
        number = int(base.begin_segment[8:16], 16) * 256 + int(base.begin_segment[16:], 16)
        path = self.path(timeline, lsn)
        reached = [left for line, left in path if line == base.timeline]
        if not reached or _lsn(base.end_lsn) > reached[0]:
            return False
        position = len(path) - 1
        for wanted in range(number, lsn // SEGMENT_BYTES + 1):
            # The segment of a branch is read from the newer timeline.
            while position > 0 and path[position][1] // SEGMENT_BYTES <= wanted:
                position -= 1
            line = max(path[position][0], base.timeline)
            if Segment(line, wanted).name not in wal:
                return False
        return True


def _lsn(shown: str) -> int:
    log, offset = shown.split("/")
    return (int(log, 16) << 32) + int(offset, 16)


WRITES = st.tuples(st.just("write"), st.integers(1, 3 * SEGMENT_BYTES))
BASES = st.tuples(st.just("base"), st.just(0))
RECOVERIES = st.tuples(st.just("recover"), st.integers(0, 12))


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History()
    history.back_up()
    for kind, value in draw(st.lists(st.one_of(WRITES, WRITES, BASES, RECOVERIES), max_size=30)):
        if kind == "write":
            history.write(value)
        elif kind == "base":
            history.back_up()
        else:
            history.recover(value)
    return history


def test_wal_of_a_timeline_whose_first_base_backup_is_to_come_is_kept() -> None:
    history = History(lsn=100 * SEGMENT_BYTES)
    history.back_up()
    older, shipped = Segment(1, 50).name, Segment(2, 50).name
    assert set(expired_wal(history.bases, [older, shipped])) == {older}


def retain(bases: list[BackupInfo], wal: set[str], before: datetime) -> tuple[list[BackupInfo], set[str]]:
    expired = expired_bases(bases, wal, before)
    kept = [base for base in bases if base not in expired]
    return kept, wal - set(expired_wal(kept, wal)) if expired else wal


def test_a_base_backup_before_two_branches_is_kept_while_the_last_timeline_has_none_of_its_own() -> None:
    history = History()
    history.back_up()
    history.back_up()
    history.recover(1)
    history.write(SEGMENT_BYTES - history.lsn % SEGMENT_BYTES)
    history.back_up()
    history.recover(1)
    assert history.branches == {2: (1, 3 * SEGMENT_BYTES + SEGMENT_BYTES // 3), 3: (2, 4 * SEGMENT_BYTES)}
    bases, wal = retain(history.bases, {segment.name for segment in history.wal}, START + timedelta(hours=4))
    assert history.restorable(bases, wal) >= {4, 5}


@given(histories(), st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_no_time_of_the_window_is_lost(history: History, windows: list[int]) -> None:
    bases, wal = history.bases, {segment.name for segment in history.wal}
    possible = history.restorable(bases, wal)
    for first in sorted(windows):
        bases, wal = retain(bases, wal, START + timedelta(hours=first))
        wanted = {time for time in possible if time >= first}
        assert wanted <= history.restorable(bases, wal)


@given(histories())
def test_what_all_times_are_after_is_removed(history: History) -> None:
    if history.branches:
        return
    history.back_up()
    history.back_up()
    end = START + timedelta(hours=len(history.places))
    bases, wal = retain(history.bases, {segment.name for segment in history.wal}, end)
    assert bases == history.bases[-1:]
    assert min(wal) == bases[0].begin_segment


def test_the_base_backup_before_a_branch_is_kept_until_the_new_timeline_has_one() -> None:
    history = History()
    history.back_up()
    history.write(4 * SEGMENT_BYTES)
    history.back_up()
    early, late = history.bases
    history.recover(back=1)
    history.write(SEGMENT_BYTES)
    names = {segment.name for segment in history.wal}
    assert expired_bases(history.bases, names, late.end_time) == []
    history.back_up()
    assert expired_bases(history.bases, names, history.bases[-1].end_time) == [early, late]
