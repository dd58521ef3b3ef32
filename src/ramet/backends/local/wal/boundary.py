"""Where exactly a fork's history ends: the last transaction that it includes, and the first that it leaves out.

WAL is replayed in order. Its end for a target time is the last point of the WAL at which the server's clock passed
the target: just behind the last end of a transaction before the first one that is later. Commit times are taken before
records are written, so a transaction behind that point may have an earlier time: those are counted.

When the clock went back, a time occurs twice; the last occurrence counts, as the snapshots that are taken after such
a step do. So the WAL is looked at as stretches in which the clock ran forward.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ramet.backends.local.wal.waldump import TransactionEnd
from ramet.model.fork import shown
from ramet.model.snapshot import lsn_number

# Commit times of concurrent transactions are out of order by microseconds; a clock is set back by more than this.
CLOCK_STEP = timedelta(seconds=1)


@dataclass(frozen=True)
class Mark:
    """One transaction's end, as a report shows it."""

    xid: int
    lsn: str
    time: str


@dataclass(frozen=True)
class ClockStep:
    """The clock went back: after the time `before` a transaction ended at `after`, by its record at `lsn`."""

    lsn: str
    before: str
    after: str


@dataclass(frozen=True)
class Cut:
    """The border; None where the WAL that was read holds no such transaction.

    `behind_with_earlier_time` are committed transactions left out although they have a time up to the target.
    `recover_to` is the last record that a fork of a moment replays: the end of a transaction, committed or not.
    """

    last_included: Mark | None = None
    first_excluded: Mark | None = None
    behind_with_earlier_time: list[int] = field(default_factory=list)
    clock_steps: list[ClockStep] = field(default_factory=list)
    recover_to: TransactionEnd | None = None

    def facts(self) -> dict[str, Any]:
        """Return it in the form that a report is stored in."""
        found = asdict(self)
        del found["recover_to"]
        return found


def cut_at_time(ends: Sequence[TransactionEnd], target: datetime, since: datetime | None) -> Cut:
    """Return where recovery to `target` has to stop.

    `ends` follow in the WAL on a state of the time `since`; None: on earlier ones.
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
    """Return the places in `ends` at which the clock had gone back since the end before.

    A single record behind later ones is no such place: its transaction was held up between taking the time and
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
    return ClockStep(ends[at].lsn, "" if before is None else shown(before), shown(ends[at].time))


def cut_at_lsn(ends: Sequence[TransactionEnd], lsn: str) -> Cut:
    """Return the commits on both sides of an LSN."""
    commits = [end for end in ends if end.committed]
    border = lsn_number(lsn)
    before = [end for end in commits if lsn_number(end.lsn) < border]
    after = [end for end in commits if lsn_number(end.lsn) >= border]
    return Cut(_last_commit(before), _mark(after[0]) if after else None)


def _last_commit(ends: Sequence[TransactionEnd]) -> Mark | None:
    return next((_mark(end) for end in reversed(ends) if end.committed), None)


def _mark(end: TransactionEnd) -> Mark:
    return Mark(end.xid, end.lsn, shown(end.time))
