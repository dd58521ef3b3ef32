"""Finding the WAL that leads from a base to a moment: up to a transaction that is known to have ended after it.

PostgreSQL stops at the first end of a transaction beyond its target, and fails when the WAL ends before it sees one.
So a chain of segments is good for a moment when some transaction in it ended later: one that pg_waldump finds in an
older segment, or one that is committed now for this purpose.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ramet.backends.local import sql
from ramet.backends.local.bases import Base
from ramet.backends.local.paths import ServicePaths
from ramet.backends.local.rows import row
from ramet.backends.local.wal import Segment, segment_before, segments_between, shown_lsn
from ramet.backends.local.waldump import transaction_ends
from ramet.backends.local.walsource import BrokenChain, WalSource
from ramet.model.snapshot import lsn_number

_COMMIT_WITHIN_SECONDS = 0.5
# The kernel stamps files with the time of its last tick.
_STAMP_SLACK_SECONDS = 0.1
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class WalEnd:
    """Up to where WAL is looked for; `proven` says that a transaction before it ended after the target."""

    segment: Segment
    lsn: str
    proven: bool


@dataclass(frozen=True)
class Chain:
    """Segments from a base's first to the one that holds a transaction's end beyond the target.

    `until_lsn` bounds what is needed of the last one; None: all of it.
    """

    segments: list[Segment]
    until_lsn: str | None


def commit_beyond(parent: ServicePaths, timeline: int, target: datetime) -> WalEnd:
    """Commit transactions on a running server until one ended after `target`; return where the WAL then ends.

    Raises Unavailable when the server is not serving, TimeoutError when its clock stays behind the target.
    """
    deadline = time.monotonic() + _COMMIT_WITHIN_SECONDS
    with sql.connect(parent) as connection:
        while True:
            # The message makes the commit one that is flushed before it returns.
            query = "SELECT pg_current_xact_id()::xid::text, pg_logical_emit_message(true, 'ramet', 'moment')"
            xid = row(connection, query)[0]
            ended, lsn = row(
                connection, "SELECT pg_xact_commit_timestamp(%s::text::xid), pg_current_wal_flush_lsn()::text", xid
            )
            if ended > target:
                return WalEnd(segment_before(timeline, lsn), lsn, proven=True)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the clock of service {parent.service_id} says {ended}, still before {target}")


def end_on_disk(source: WalSource, pg_waldump: str, base: Base, at_least: Segment) -> WalEnd:
    """Return where the WAL of a server that is down ends, by its files; raises BrokenChain when the end is missing.

    `at_least` is a segment that the server is known to have begun.
    """
    last = source.last_written(base.segments[-1])
    path = source.find(last)
    if path is None or last < at_least:
        raise BrokenChain("WAL_MISSING", max(last, at_least), "is missing")
    ends = transaction_ends(pg_waldump, path)
    if last == base.segments[-1] and (not ends or lsn_number(ends[-1].lsn) < lsn_number(base.facts.end_lsn)):
        return WalEnd(last, base.facts.end_lsn, proven=False)
    return WalEnd(last, ends[-1].lsn if ends else shown_lsn(last.start + 1), proven=False)


def chain_to(source: WalSource, pg_waldump: str, base: Base, target: datetime, end: WalEnd) -> Chain | None:
    """Return the shortest chain from `base` that is good for `target`.

    None: the WAL is complete to `end`, which is its real end, and no transaction in it ended after `target`.
    Raises BrokenChain for the first segment that is nowhere.
    """
    segments = []
    for segment in segments_between(base.segments[0], end.segment):
        segments.append(segment)
        if segment == end.segment and end.proven:
            return Chain(segments, end.lsn)
        if _reaches(source, pg_waldump, segment, target):
            return Chain(segments, end.lsn if segment == end.segment else None)
    return None


def last_reachable(source: WalSource, pg_waldump: str, base: Base, hole: Segment) -> datetime | None:
    """Return the latest moment before `hole` that the WAL from `base` leads to; None when it leads to none."""
    for segment in reversed(list(segments_between(base.segments[0], hole))[:-1]):
        path = source.find(segment)
        ends = [] if path is None else transaction_ends(pg_waldump, path)
        if ends:
            moment = max(end.time for end in ends) - _MICROSECOND
            return moment if moment >= base.facts.taken_at else None
    return None


def _reaches(source: WalSource, pg_waldump: str, segment: Segment, target: datetime) -> bool:
    path = source.find(segment)
    if path is None:
        raise BrokenChain("WAL_MISSING", segment, "is missing")
    try:
        if ended_before(path, target):
            return False
        return any(end.time > target for end in transaction_ends(pg_waldump, path))
    except FileNotFoundError:  # it has just moved to the archive
        return _reaches(source, pg_waldump, segment, target)


def ended_before(path: Path, target: datetime) -> bool:
    """Tell whether all transactions whose ends a file could hold ended by `target`: it was not written later."""
    return datetime.fromtimestamp(path.stat().st_mtime + _STAMP_SLACK_SECONDS, UTC) <= target
