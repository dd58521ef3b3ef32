"""Reading a long range of WAL some segments at a time: the ends of transactions of few segments are in memory.

pg_waldump skips a record that began before its start. So each run starts with a record that was read already, or with
the first one of a segment before which all were read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ramet.backends.local.wal.segment import SEGMENT_BYTES
from ramet.backends.local.wal.waldump import Stretch, TransactionEnd
from ramet.model.snapshot import lsn_number

# What is read at a time: its ends of transactions are in memory, 100,000 of a segment at most.
_STRETCH_SEGMENTS = 4
# No record is longer than 64 segments (XLogRecordMaxSize of PostgreSQL): within so many one begins and ends.
_LONGEST_SEGMENTS = 66


@dataclass(kw_only=True)
class Position:
    """How far WAL was read: until an LSN.

    The next run of pg_waldump starts at `start`, because the record of the next end may have begun before `until`: with
    the last end, which it has `seen`, or in the last segment of which a record was read that begins there.
    """

    until: int
    start: int
    seen: int = -1

    def next_stop(self, end_lsn: int) -> int:
        """Return the LSN until which is read next, on the way to an LSN."""
        return min(end_lsn, (self.until // SEGMENT_BYTES + _STRETCH_SEGMENTS) * SEGMENT_BYTES)

    def advance(self, ends: Sequence[TransactionEnd], begun: Iterable[int]) -> list[TransactionEnd]:
        """Take what was read until `until`; return the ends that were not seen before.

        `begun` are the numbers of the segments in which records begin, as far as is known.
        """
        new = [one for one in ends if lsn_number(one.lsn) > self.seen]
        if new:
            self.start = self.seen = lsn_number(new[-1].lsn)
        passed = [number for number in sorted(begun) if (number + 1) * SEGMENT_BYTES <= self.until]
        # The record that begins in the last one of these may be longer than what was read.
        self.start = max([self.start, *(number * SEGMENT_BYTES for number in passed[-2:-1])])
        return new


def is_within_record(stretch: Stretch, segments: int) -> bool:
    """Tell whether so many segments may be too few, because their first record ends behind them."""
    is_short = stretch.fault is not None and "could not find a valid record" in stretch.fault[1]
    return is_short and segments <= _LONGEST_SEGMENTS
