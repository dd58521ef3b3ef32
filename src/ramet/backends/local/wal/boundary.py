"""Where exactly a fork's history ends: the last transaction that it includes, and the first that it excludes.

WAL is replayed in order. Recovery to a target time ends at the last point of the WAL at which the server's clock passed
the target: after the last transaction that ended before the first one with a later time. A commit takes its time before
it writes its record, so a transaction after that point may have an earlier time; these transactions are reported.

When the clock was set back, a time occurs twice, and the last occurrence counts, as it does for snapshots taken after
the step. So the WAL is divided into ranges in which the clock ran forward.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ramet.backends.local.wal.waldump import TransactionEnd
from ramet.model.snapshot import lsn_number
from ramet.model.timestamps import rfc3339

# Commit times of concurrent transactions are out of order by microseconds; a clock step is larger than this.
CLOCK_STEP = timedelta(seconds=1)


@dataclass(frozen=True)
class Mark:
    """The end of one transaction, as reports show it.

    `origin_time`: PostgreSQL stores this one for a transaction that was replicated (TransactionTreeSetCommitTsData).
    """

    xid: int
    lsn: str
    time: str
    origin_time: str | None = None


@dataclass(frozen=True)
class ClockStep:
    """The clock was set back: after a transaction with the time `before`, one ended at `after`, at `lsn`."""

    lsn: str
    before: str
    after: str


@dataclass(frozen=True)
class Cut:
    """The last included and the first excluded transaction; None when the WAL that was read has no such transaction.

    `behind_with_earlier_time` are committed transactions that are excluded although their time is not after the target.
    `recover_to` is the last record that recovery to the target replays: the end of a transaction, committed or not.
    """

    last_included: Mark | None = None
    first_excluded: Mark | None = None
    behind_with_earlier_time: list[int] = field(default_factory=list)
    clock_steps: list[ClockStep] = field(default_factory=list)
    recover_to: TransactionEnd | None = None

    def facts(self) -> dict[str, Any]:
        """Return the fields that a report stores."""
        found = asdict(self)
        del found["recover_to"]
        for mark in (found["last_included"], found["first_excluded"]):
            if mark is not None and mark["origin_time"] is None:
                del mark["origin_time"]
        return found


def cut_at_time(ends: Sequence[TransactionEnd], target: datetime, since: datetime | None) -> Cut:
    """Return where recovery to `target` has to stop.

    `ends` follow a base backup of the time `since` in the WAL; None: they follow earlier transactions.
    """
    steps = clock_steps(ends, since)
    begins = max((at for at in steps if ends[at].time <= target), default=0)
    beyond = next((at for at in range(begins, len(ends)) if ends[at].time > target), len(ends))
    return Cut(
        _last_commit(ends[:beyond]),
        _mark(ends[beyond]) if beyond < len(ends) else None,
        [end.xid for end in ends[beyond:] if end.committed and end.time <= target],
        [_clock_step(ends, at, since) for at in steps],
        ends[beyond - 1] if beyond else None,
    )


def clock_steps(ends: Sequence[TransactionEnd], since: datetime | None) -> list[int]:
    """Return the positions in `ends` at which the clock had been set back since the previous end.

    A single record with an earlier time is no clock step: its transaction was delayed between taking the time and
    writing the record.
    """
    steps: list[int] = []
    latest = since
    for at, end in enumerate(ends):
        latest = latest or end.time
        if end.time >= latest - CLOCK_STEP:
            latest = max(latest, end.time)
        elif at + 1 == len(ends) or ends[at + 1].time < latest - CLOCK_STEP:
            latest = end.time
            steps.append(at)
    return steps


def _clock_step(ends: Sequence[TransactionEnd], at: int, since: datetime | None) -> ClockStep:
    before = ends[at - 1].time if at else since
    return ClockStep(ends[at].lsn, "" if before is None else rfc3339(before), rfc3339(ends[at].time))


def cut_at_lsn(ends: Sequence[TransactionEnd], lsn: str) -> Cut:
    """Return the last commit before an LSN, and the first one at or after it."""
    commits = [end for end in ends if end.committed]
    border = lsn_number(lsn)
    before = [end for end in commits if lsn_number(end.lsn) < border]
    after = [end for end in commits if lsn_number(end.lsn) >= border]
    return Cut(_last_commit(before), _mark(after[0]) if after else None)


def _last_commit(ends: Sequence[TransactionEnd]) -> Mark | None:
    return next((_mark(end) for end in reversed(ends) if end.committed), None)


def _mark(end: TransactionEnd) -> Mark:
    return Mark(end.xid, end.lsn, rfc3339(end.time), None if end.origin_time is None else rfc3339(end.origin_time))
