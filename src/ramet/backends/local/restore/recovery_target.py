"""Find the point in the WAL at which recovery to a target time has to end.

That is after the last transaction that ended by the target and before the first one that ended later: only the latter
proves that nothing is missing. It is in the WAL already, or a running parent commits one for this purpose. The times of
files are not used, only those in the WAL.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.restore.base_backup import Base
from ramet.backends.local.restore.standby_copy import DATING_MARGIN
from ramet.backends.local.wal.boundary import CLOCK_STEP, Cut, CutSearch, clock_steps
from ramet.backends.local.wal.locate import BrokenChain, WalSource
from ramet.backends.local.wal.reading import Position, is_within_record
from ramet.backends.local.wal.segment import (
    PAGE_BYTES,
    Segment,
    begins_record,
    segment_at,
    segment_before,
    segments_between,
    shown_lsn,
    unreadable,
)
from ramet.backends.local.wal.waldump import TransactionEnd, transaction_ends
from ramet.errors import Failed
from ramet.model.snapshot import lsn_number
from ramet.model.timestamps import rfc3339

_TAIL_BYTES = 128 * 1024
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class WalReader:
    """Reads the WAL of one service."""

    source: WalSource
    pg_waldump: str

    def ends(self, timeline: int, start_lsn: int, end_lsn: int) -> list[TransactionEnd]:
        """Return the ends of transactions between two LSNs.

        Raises _Interrupted, with the ends before the fault, when a segment is missing or damaged.
        """
        last = segment_before(timeline, shown_lsn(end_lsn))
        segments = list(segments_between(segment_at(timeline, shown_lsn(start_lsn)), last))
        with self.source.view(segments) as view:
            there = end_lsn if view.missing is None else min(end_lsn, max(start_lsn, view.missing.start))
            found = transaction_ends(self.pg_waldump, view.directory, timeline, start_lsn, there)
        if view.missing is not None:
            raise _Interrupted(BrokenChain("WAL_MISSING", view.missing, "is missing"), found.ends)
        if found.fault is not None:
            is_short = is_within_record(found, len(segments))
            raise _Interrupted(self._damaged(segments, found.fault, end_lsn), found.ends, is_short=is_short)
        return found.ends

    def stream(self, timeline: int, start_lsn: int, end_lsn: int) -> Iterator[TransactionEnd]:
        """Yield the same as `ends`, of a range of any length: some segments are read at a time.

        Raises _Interrupted after the last end before the fault.
        """
        position, fault = Position(until=start_lsn, start=start_lsn), None
        while fault is None:
            position.until = position.next_stop(end_lsn)
            try:
                ends = self.ends(timeline, position.start, position.until)
            except _Interrupted as interrupted:
                if interrupted.is_short and position.until < end_lsn:
                    continue
                ends, fault = interrupted.ends, interrupted
            yield from position.advance(ends, self.begun(timeline, position.start, position.until))
            if position.until >= end_lsn:
                break
        if fault is not None:
            raise fault

    def begun(self, timeline: int, start_lsn: int, end_lsn: int) -> list[int]:
        """Return the numbers of the segments between two LSNs in which records begin, as far as is known."""
        last, numbers = segment_before(timeline, shown_lsn(end_lsn)), []
        for segment in segments_between(segment_at(timeline, shown_lsn(start_lsn)), last):
            path = self.source.find(segment)
            if path is not None and begins_record(_first_page(path)):
                numbers.append(segment.number)
        return numbers

    def _damaged(self, segments: Sequence[Segment], fault: tuple[str, str], end_lsn: int) -> BrokenChain:
        """Return the error for WAL that could not be read: a wrong file, or a damaged record."""
        for segment in segments:
            # A whole segment may be blank behind a switch.
            if header_fault := self.source.fault_of(segment, end_lsn if end_lsn < segment.end else None):
                return BrokenChain("WAL_DAMAGED", segment, header_fault)
        lsn, why = fault
        return BrokenChain("WAL_DAMAGED", segment_at(segments[0].timeline, lsn), f"is damaged at {lsn}: {why}")

    def to_the_end(self, timeline: int, start_lsn: int, last: Segment) -> Iterator[TransactionEnd]:
        """Yield the ends of transactions from an LSN to the end of the WAL, which is in `last` or before it."""
        for segment in segments_between(segment_at(timeline, shown_lsn(start_lsn)), last):
            if self.source.find(segment) is None:
                raise BrokenChain("WAL_MISSING", segment, "is missing")
        yield from _until_fault(self.stream(timeline, start_lsn, last.end))

    def clearly_before(self, segment: Segment, target: datetime) -> int | None:
        """Return an LSN in the last part of a segment after which all transactions ended clearly before `target`.

        None when one of them ended later, none ended there, or the segment cannot be read.
        """
        try:
            ends = self.ends(segment.timeline, segment.end - _TAIL_BYTES, segment.end)
        except _Interrupted:
            return None
        committed = next((end for end in ends if end.committed), None)
        is_clear = committed is not None and all(end.time < target - CLOCK_STEP for end in ends)
        return lsn_number(committed.lsn) if committed is not None and is_clear else None


class _Interrupted(Exception):
    """The WAL could be read only up to a missing or damaged segment; where it `is_short`, more may show no fault."""

    def __init__(self, fault: BrokenChain, ends: list[TransactionEnd], *, is_short: bool = False) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.ends = ends
        self.is_short = is_short


def _until_fault(ends: Iterator[TransactionEnd]) -> Iterator[TransactionEnd]:
    with contextlib.suppress(_Interrupted):
        yield from ends


@dataclass(frozen=True)
class RecoveryEnd:
    """The base backup to start from, where recovery ends in the WAL, and the LSN up to which the WAL was read."""

    base_name: str
    base: Base
    cut: Cut
    read_until: str


@dataclass(frozen=True)
class LiveEnd:
    """The end of a service's WAL: `lsn` finds it, and `time` is the server's clock there, None when it is unknown.

    `lsn` may be called more than once; a later call may find a later end.
    """

    lsn: Callable[[], str]
    time: datetime | None


def find_recovery_end(
    reader: WalReader, bases: Sequence[tuple[str, Base]], chosen: str, target: datetime, live_end: LiveEnd
) -> RecoveryEnd:
    """Return where recovery to `target` ends.

    `bases` are the snapshots of the service by name, in the order of the WAL; `chosen` is the one to recover from.
    The WAL is read as far as needed: to later snapshots, or to its end.
    The cut excludes nothing when no transaction ended after the target.
    Raises BrokenChain for the first required segment that is missing or damaged.
    """
    first = [name for name, _ in bases].index(chosen)
    taken_at = bases[first][1].facts.taken_at
    if taken_at > target:
        raise Failed(
            "WRONG_BASE",
            f"Snapshot {chosen} was taken at {rfc3339(taken_at)}, after {rfc3339(target)}",
            "Fork once more.",
        )
    at = _base_after_step(reader, bases, first, target, live_end)
    name, base = bases[at]
    for bound in _bounds([following for _, following in bases[at + 1 :]], live_end):
        cut, fault = _cut(reader, base, target, bound)
        if cut.first_excluded is None and fault is not None:
            raise fault
        if cut.first_excluded is not None:
            break
    return RecoveryEnd(name, base, cut, bound)


def _bounds(following: Sequence[Base], live_end: LiveEnd) -> Iterator[str]:
    yield from (base.facts.end_lsn for base in following)
    yield live_end.lsn()


def _cut(reader: WalReader, base: Base, target: datetime, until_lsn: str) -> tuple[Cut, BrokenChain | None]:
    """Return where to end in the WAL from a base backup to an LSN, and why it could not be read to that LSN.

    WAL before transactions that ended clearly before the target is included without being read.
    """
    timeline, start = base.facts.timeline, lsn_number(base.facts.end_lsn)
    last = segment_before(timeline, until_lsn)
    before = reversed(list(segments_between(segment_at(timeline, base.facts.end_lsn), last))[:-1])
    known = next((lsn for segment in before if (lsn := reader.clearly_before(segment, target)) is not None), start)
    search, fault = CutSearch.begin(target, _clock_at(base) if known <= start else None), None
    try:
        search.read(reader.stream(timeline, max(start, known), lsn_number(until_lsn)))
    except _Interrupted as interrupted:
        fault = interrupted.fault
    return search.cut(), fault


def _clock_at(base: Base) -> datetime:
    """Return a time that the clock showed when a base backup was complete; that of a standby may be dated later.

    By how much is not recorded of a standby that was stopped, nor by earlier releases.
    """
    dated = base.facts.taken_at - DATING_MARGIN if base.of_standby else base.facts.taken_at
    return base.complete_until or dated


def _base_after_step(
    reader: WalReader, bases: Sequence[tuple[str, Base]], chosen: int, target: datetime, live_end: LiveEnd
) -> int:
    """Return the base backup from which recovery reaches the last time at which the clock showed `target`.

    That is the chosen one, unless the clock was set back to before the target after a later one: between two snapshots,
    or since the last one.
    """
    last = len(bases) - 1
    if last > chosen and _may_have_gone_back(bases[last][1], target, live_end.time):
        try:
            until_lsn = live_end.lsn()
        except Failed:  # the end is unknown, but may not be needed
            until_lsn = bases[last][1].facts.end_lsn
        if _shows_again(reader, bases[last][1], until_lsn, target):
            return last
    for at in range(last - 1, chosen, -1):
        before, after = bases[at][1], bases[at + 1][1]
        is_step = before.facts.taken_at > after.facts.taken_at > target
        if is_step and _shows_again(reader, before, after.facts.end_lsn, target):
            return at
    return chosen


def _may_have_gone_back(last: Base, target: datetime, end_time: datetime | None) -> bool:
    """Tell whether the clock may have shown `target` again since the last snapshot, which is later than `target`."""
    return last.facts.taken_at > target and (end_time is None or end_time < last.facts.taken_at)


def _shows_again(reader: WalReader, base: Base, until_lsn: str, target: datetime) -> bool:
    """Tell whether the clock was set back to `target` or before in the WAL after a base backup."""
    facts = base.facts
    ends = _until_fault(reader.stream(facts.timeline, lsn_number(facts.end_lsn), lsn_number(until_lsn)))
    return any(step.time <= target for step in clock_steps(ends, _clock_at(base)))


def _first_page(path: Path) -> bytes:
    """Return the first page of a segment; nothing when it was just removed, or the disk cannot read it."""
    try:
        with files.plain(path) as file:
            return file.read(PAGE_BYTES)
    except FileNotFoundError:
        return b""
    except OSError as error:
        unreadable(error)
        return b""


def end_on_disk(reader: WalReader, base: Base, at_least: Segment) -> str:
    """Return the end of the WAL of a server that is gone, by its files from `base` on.

    The server is known to have begun the segment `at_least`. Raises BrokenChain when the end is missing.
    """
    last = reader.source.last_written(base.segments[-1])
    if last < at_least:
        raise BrokenChain("WAL_MISSING", at_least, "is missing")
    return end_in(reader, base, last)


def end_in(reader: WalReader, base: Base, last: Segment) -> str:
    """Return the end of the WAL from `base` to the segment `last`: after its last transaction."""
    ends = reader.to_the_end(base.facts.timeline, lsn_number(base.facts.end_lsn), last)
    known = [base.facts.end_lsn, *(end.end_lsn for end in deque(ends, maxlen=1))]
    if last > base.segments[-1]:
        known.append(shown_lsn(last.start + 1))
    return max(known, key=lsn_number)


def ends_after(reader: WalReader, segment: Segment, time: datetime) -> bool:
    """Tell whether the last transaction that ended in a segment did so after a time; False when none ended there."""
    try:
        ends = reader.ends(segment.timeline, segment.start, segment.end)
    except _Interrupted as interrupted:
        ends = interrupted.ends
    return bool(ends) and ends[-1].time > time


def last_reachable(reader: WalReader, base: Base, hole: Segment) -> datetime | None:
    """Return the latest restorable time before the missing segment `hole`; None when there is none after `base`."""
    return _restorable(base, [end.time for end in _ends_before(reader, base, hole)])


def last_certain(reader: WalReader, base: Base, hole: Segment) -> datetime | None:
    """Return the latest time that is restorable before `hole` even if the clock was set back there: by its last end."""
    return _restorable(base, [end.time for end in _ends_before(reader, base, hole)[-1:]])


def _restorable(base: Base, times: Sequence[datetime]) -> datetime | None:
    latest = max(times, default=base.facts.taken_at) - _MICROSECOND
    return latest if latest >= base.facts.taken_at else None


def _ends_before(reader: WalReader, base: Base, hole: Segment) -> list[TransactionEnd]:
    """Return the ends of transactions in the last segment before `hole` that has any."""
    for segment in reversed(list(segments_between(base.segments[0], hole))[:-1]):
        try:
            ends = reader.ends(segment.timeline, segment.start, segment.end)
        except _Interrupted as interrupted:
            ends = interrupted.ends
        if ends:
            return ends
    return []
