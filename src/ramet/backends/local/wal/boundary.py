"""Where exactly a fork's history ends: the last transaction that it includes, and the first that it excludes.

WAL is replayed in order. Recovery to a target time ends at the last point of the WAL at which the server's clock passed
the target: after the last transaction that ended before the first one with a later time. A commit takes its time before
it writes its record, so a transaction after that point may have an earlier time; these transactions are reported.

When the clock was set back, a time occurs twice, and the last occurrence counts, as it does for snapshots taken after
the step. So the WAL is divided into ranges in which the clock ran forward.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from itertools import chain
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


@dataclass
class Clock:
    """Tells of the ends of transactions, one after the other, before which of them the clock had been set back.

    A single record with an earlier time is no clock step: its transaction was delayed between taking the time and
    writing the record. So such a one is `held` until the next one is known. `latest` is at first the time of the base
    backup that the ends follow; None: they follow earlier transactions.
    """

    latest: datetime | None
    held: TransactionEnd | None = None

    def judge(self, end: TransactionEnd | None) -> Iterator[tuple[TransactionEnd, bool]]:
        """Take the next end, None behind the last one; yield those that are known now, and whether they are steps."""
        held, self.held = self.held, None
        if held is not None and self.latest is not None:
            is_step = end is None or end.time < self.latest - CLOCK_STEP
            self.latest = held.time if is_step else self.latest
            yield held, is_step
        if end is None:
            return
        self.latest = self.latest or end.time
        if end.time < self.latest - CLOCK_STEP:
            self.held = end
            return
        self.latest = max(self.latest, end.time)
        yield end, False


@dataclass
class CutSearch:
    """Finds where recovery to `target` has to stop, of ends that are read piece by piece: few of them are kept.

    `since` is the time of the base backup that they follow in the WAL; None: they follow earlier transactions.
    """

    target: datetime
    since: datetime | None
    clock: Clock
    end: TransactionEnd | None = None
    commit: TransactionEnd | None = None
    # The last commit and the last end before the first one beyond the target, and that.
    border: tuple[TransactionEnd | None, TransactionEnd | None, TransactionEnd] | None = None
    behind: list[int] = field(default_factory=list)
    steps: list[ClockStep] = field(default_factory=list)

    @classmethod
    def begin(cls, target: datetime, since: datetime | None) -> "CutSearch":
        """Return a search that nothing was read for."""
        return cls(target, since, Clock(since))

    def read(self, ends: Iterable[TransactionEnd | None]) -> None:
        """Take the ends that come next; None behind the last one."""
        for end in ends:
            for known, is_step in self.clock.judge(end):
                self._take(known, is_step)

    def cut(self) -> Cut:
        """Return where recovery stops if nothing follows."""
        found = deepcopy(self)
        found.read([None])
        commit, last, beyond = found.border or (found.commit, found.end, None)
        return Cut(_mark(commit), _mark(beyond), found.behind, found.steps, last)

    def _take(self, end: TransactionEnd, is_step: bool) -> None:
        if is_step:
            before = self.since if self.end is None else self.end.time
            self.steps.append(ClockStep(end.lsn, "" if before is None else rfc3339(before), rfc3339(end.time)))
            if end.time <= self.target:
                self.border, self.behind = None, []
        if self.border is None and end.time > self.target:
            self.border = self.commit, self.end, end
        elif self.border is not None and end.committed and end.time <= self.target:
            self.behind.append(end.xid)
        self.end = end
        self.commit = end if end.committed else self.commit


def clock_steps(ends: Iterable[TransactionEnd], since: datetime | None) -> Iterator[TransactionEnd]:
    """Yield those of `ends` before which the clock had been set back since the previous end."""
    clock = Clock(since)
    judged = chain.from_iterable(clock.judge(end) for end in chain(ends, [None]))
    return (end for end, is_step in judged if is_step)


def cut_at_lsn(ends: Iterable[TransactionEnd], lsn: str) -> Cut:
    """Return the last commit before an LSN, and the first one at or after it, behind which no end is taken."""
    border, before = lsn_number(lsn), None
    for end in (end for end in ends if end.committed):
        if lsn_number(end.lsn) >= border:
            return Cut(_mark(before), _mark(end))
        before = end
    return Cut(_mark(before))


def _mark(end: TransactionEnd | None) -> Mark | None:
    if end is None:
        return None
    return Mark(end.xid, end.lsn, rfc3339(end.time), None if end.origin_time is None else rfc3339(end.origin_time))
