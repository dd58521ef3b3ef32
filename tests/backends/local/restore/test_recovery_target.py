"""The base and the WAL that are searched for a time when the clock went back; the WAL is a table of times here.

A real clock cannot be set back for a test: what happens with real servers is in `prove/clock.py`.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ramet.backends.interface.values import SnapshotFacts
from ramet.backends.local.restore.base_backup import Base
from ramet.backends.local.restore.recovery_target import LiveEnd, RecoveryEnd, WalReader, end_in, find_recovery_end
from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.wal.boundary import CutSearch
from ramet.backends.local.wal.locate import WalSource
from ramet.backends.local.wal.segment import SEGMENT_BYTES, Segment, shown_lsn
from ramet.backends.local.wal.waldump import TransactionEnd
from ramet.errors import Failed
from ramet.model.snapshot import lsn_number
from tests.backends.local.segments import DISK_FAULTS, IDENTIFIER, make_unreadable, write_segment

TEN = datetime(2026, 1, 15, 10, tzinfo=UTC)
HOUR = 3600
_BYTES = 0x100


def _at(seconds: float) -> datetime:
    return TEN + timedelta(seconds=seconds)


@dataclass(frozen=True)
class _Wal(WalReader):
    """Transactions that ended at these seconds, one behind the other."""

    times: tuple[float, ...]

    def ends(self, timeline: int, start_lsn: int, end_lsn: int) -> list[TransactionEnd]:
        assert timeline == 1
        ends = [
            TransactionEnd(700 + at, shown_lsn(at * _BYTES + 1), _at(time), True, 34)
            for at, time in enumerate(self.times)
        ]
        return [end for end in ends if start_lsn <= lsn_number(end.lsn) < end_lsn]

    def begun(self, timeline: int, start_lsn: int, end_lsn: int) -> list[int]:
        return []

    def clearly_before(self, segment: Segment, restore_time: datetime) -> int | None:
        return None


@dataclass(frozen=True)
class _LongWal(_Wal):
    """The same with a segment for each transaction, in the middle; others that are before 0 have not ended."""

    read: list[tuple[int, int]] = field(default_factory=list)

    def ends(self, timeline: int, start_lsn: int, end_lsn: int) -> list[TransactionEnd]:
        self.read.append((start_lsn, end_lsn))
        known = [
            TransactionEnd(700 + at, shown_lsn(at * SEGMENT_BYTES + _BYTES), _at(time), True, 34)
            for at, time in enumerate(self.times)
            if time >= 0
        ]
        return [end for end in known if start_lsn <= lsn_number(end.lsn) < end_lsn]

    def begun(self, timeline: int, start_lsn: int, end_lsn: int) -> list[int]:
        return list(range(start_lsn // SEGMENT_BYTES, end_lsn // SEGMENT_BYTES))

    @property
    def most_segments(self) -> int:
        """Return of how many segments the ends were in memory at once, at most."""
        return max((end - 1) // SEGMENT_BYTES - start // SEGMENT_BYTES + 1 for start, end in self.read)


def _base(seconds: float, count: int) -> Base:
    """Return the base that was complete at a time and holds so many transactions."""
    lsn = shown_lsn(count * _BYTES)
    return Base(SnapshotFacts(_at(seconds), lsn, lsn, 1, 700 + count, 0), 1, clean=True, seconds={})


def _find(times: list[float], bases: dict[str, Base], target: float, end: LiveEnd) -> RecoveryEnd:
    reader = _Wal(None, "", tuple(times))  # type: ignore[arg-type]
    return find_recovery_end(reader, list(bases.items()), "early", _at(target), end)


def _end_of(times: list[float], now: float | None) -> LiveEnd:
    return LiveEnd(lambda: shown_lsn(len(times) * _BYTES), None if now is None else _at(now))


def _included(found: RecoveryEnd) -> int:
    """Return how many transactions the fork holds that begins with the base and ends with the cut."""
    base = lsn_number(found.base.facts.end_lsn) // _BYTES
    return base if found.cut.recover_to is None else found.cut.recover_to.xid - 699


AHEAD = [1.0, 2.0, HOUR + 3, HOUR + 4, 5.0, 6.0, 9.0]
BASES = {"early": _base(0, 0), "ahead": _base(HOUR + 3.5, 3)}


@pytest.mark.parametrize("now", [9.0, None], ids=["a serving parent", "a dead parent"])
def test_a_snapshot_of_a_clock_that_was_ahead_hides_nothing_that_came_after_it(now: float | None) -> None:
    found = _find(AHEAD, BASES, 7, _end_of(AHEAD, now))
    assert (found.base_name, _included(found)) == ("ahead", 6)


def test_a_target_before_a_clock_step_is_recovered_from_the_snapshot_before_the_step() -> None:
    found = _find(AHEAD, BASES, 1.5, _end_of(AHEAD, 9))
    assert (found.base_name, _included(found)) == ("early", 1)


def test_where_two_snapshots_show_the_step_the_wal_between_them_is_searched() -> None:
    bases = {**BASES, "behind": _base(8, 6)}
    found = _find(AHEAD, bases, 7, _end_of(AHEAD, 9))
    assert (found.base_name, _included(found)) == ("ahead", 6)


def _is_missing() -> str:
    raise Failed("WAL_MISSING", "the end is missing")


def test_a_target_that_needs_no_end_of_the_wal_is_found_when_the_end_is_missing() -> None:
    found = _find([1.0, 2.0, 3.0], {"early": _base(0, 0), "late": _base(2.5, 2)}, 1.5, LiveEnd(_is_missing, None))
    assert (found.base_name, _included(found)) == ("early", 1)


def test_the_end_of_the_wal_is_not_determined_without_a_clock_step() -> None:
    end = LiveEnd(lambda: pytest.fail("asked for"), _at(3))
    assert _included(_find([1.0, 2.0, 3.0], {"early": _base(0, 0), "late": _base(2.5, 2)}, 1.5, end)) == 1


@pytest.mark.parametrize(("times", "steps"), [([1.0, 1.1, 1.2], 0), ([1.0, -5.0, -4.0], 1)])
def test_a_snapshot_of_a_standby_that_is_dated_after_its_last_commit_shows_no_clock_step(
    times: list[float], steps: int
) -> None:
    bases = {"early": replace(_base(3, 1), of_standby=True)}
    found = _find(times, bases, 5, _end_of(times, None))
    assert len(found.cut.clock_steps) == steps


@pytest.mark.parametrize(("times", "steps"), [([30.0, 31.0, 32.0], 0), ([30.0, 20.0, 21.0], 1)])
def test_a_snapshot_of_a_standby_that_replays_late_shows_no_clock_step(times: list[float], steps: int) -> None:
    bases = {"early": replace(_base(60, 1), of_standby=True, complete_until=_at(30))}
    found = _find(times, bases, 70, _end_of(times, None))
    assert len(found.cut.clock_steps) == steps


_LONG = [*range(1, 60), *[-1] * 60, *range(60, 100)]
_LONG_END = len(_LONG) * SEGMENT_BYTES


@pytest.mark.parametrize("target", [0.5, 30.0, 75.5, 98.0])
def test_a_long_stretch_of_wal_is_read_a_few_segments_at_a_time(target: float) -> None:
    reader = _LongWal(None, "", tuple(_LONG))  # type: ignore[arg-type]
    bases = [("early", _base(0, 0)), ("late", _base(200, _LONG_END // _BYTES))]
    found = find_recovery_end(reader, bases, "early", _at(target), LiveEnd(_is_missing, _at(300)))
    assert reader.most_segments <= 6
    whole = CutSearch.begin(_at(target), TEN)
    whole.read(reader.ends(1, 0, _LONG_END))
    assert found.cut == whole.cut()


class _Everything:
    """A source that has each segment."""

    def find(self, segment: Segment) -> Path:
        return Path(segment.name)


def test_a_clock_step_and_the_end_of_the_wal_are_searched_a_few_segments_at_a_time() -> None:
    times = (*range(HOUR, HOUR + 80), *range(1, 40))
    reader, last = _LongWal(_Everything(), "", times), Segment(1, len(times) - 1)  # type: ignore[arg-type]
    bases = [("early", _base(0, 0)), ("ahead", _base(HOUR, 0))]
    end = LiveEnd(lambda: end_in(reader, bases[-1][1], last), None)
    found = find_recovery_end(reader, bases, "early", _at(7), end)
    assert reader.most_segments <= 6
    ends = reader.ends(1, 0, last.end)
    assert (found.base_name, found.cut.recover_to, found.read_until) == ("ahead", ends[86], ends[-1].end_lsn)


@pytest.mark.parametrize("number", DISK_FAULTS)
def test_no_record_is_known_to_begin_in_a_segment_that_the_disk_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    first, victim = Segment(1, 5), Segment(1, 6)
    for segment in (first, victim):
        write_segment(tmp_path, segment)
    make_unreadable(monkeypatch, tmp_path / victim.name, number)
    reader = WalReader(WalSource(CopyDriver(), [tmp_path], IDENTIFIER), "")
    assert reader.begun(1, first.start, victim.end) == [first.number]
