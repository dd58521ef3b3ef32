"""Where exactly a fork's history ends: the last transaction that it includes, and the first that it leaves out.

PostgreSQL replays WAL in order and stops before the first end of a transaction beyond the target. Times are taken
before records are written, so a transaction behind that point may bear an earlier time: those are counted.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ramet.backends.local.waldump import TransactionEnd, transaction_ends
from ramet.model.fork import shown
from ramet.model.snapshot import lsn_number


@dataclass(frozen=True)
class Mark:
    """One transaction's end, as a report shows it."""

    xid: int
    lsn: str
    time: str


@dataclass(frozen=True)
class Cut:
    """The border; None where the WAL that was read holds no such transaction.

    `behind_with_earlier_time` are committed transactions left out although they bear a time up to the target.
    """

    last_included: Mark | None = None
    first_excluded: Mark | None = None
    behind_with_earlier_time: list[int] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """Return it in the form that a report is stored in."""
        return asdict(self)


def cut_at_time(pg_waldump: str, segments: Sequence[Path], target: datetime) -> Cut:
    """Return where recovery to `target` stops; `segments` lead in order to a transaction that ended later."""
    ends = transaction_ends(pg_waldump, segments[-1])
    beyond = next((at for at, end in enumerate(ends) if end.time > target), len(ends))
    behind = [end.xid for end in ends[beyond:] if end.committed and end.time <= target]
    included = _last_commit(ends[:beyond])
    for path in reversed(segments[:-1]):
        included = included or _last_commit(transaction_ends(pg_waldump, path))
    return Cut(included, _mark(ends[beyond]) if beyond < len(ends) else None, behind)


def cut_at_lsn(pg_waldump: str, segments: Sequence[Path], lsn: str) -> Cut:
    """Return the commits on both sides of an LSN; `segments` are those around it that are still there."""
    commits = [end for path in segments for end in transaction_ends(pg_waldump, path) if end.committed]
    border = lsn_number(lsn)
    before = [end for end in commits if lsn_number(end.lsn) < border]
    after = [end for end in commits if lsn_number(end.lsn) >= border]
    return Cut(_last_commit(before), _mark(after[0]) if after else None)


def _last_commit(ends: Sequence[TransactionEnd]) -> Mark | None:
    committed = [end for end in ends if end.committed]
    return _mark(committed[-1]) if committed else None


def _mark(end: TransactionEnd) -> Mark:
    return Mark(end.xid, end.lsn, shown(end.time))
