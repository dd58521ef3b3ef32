"""What is stored of a fork when it is READY, as its report reads it.

Stored reports of earlier releases are decoded by these types too: a field that they lack needs a default here. What no
report shows is not read.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct


class Mark(Struct, frozen=True):
    """The end of one transaction."""

    xid: int
    lsn: str
    time: str


class Cut(Struct, frozen=True):
    """Where a fork's history ends: its last transaction, and the first one of the parent that it does not have.

    `behind_with_earlier_time` are committed transactions that it lacks although their time is not after the target.
    """

    last_included: Mark | None = None
    first_excluded: Mark | None = None
    behind_with_earlier_time: list[int] = []


class Download(Struct, frozen=True):
    """What came from the off-host archive. Without a `url` it was the operator of Kubernetes that fetched it.

    `unread` says why WAL soon after the target was not read.
    """

    base_backup: str
    url: str | None = None
    downloaded_bytes: int = 0
    seconds: float = 0.0
    unread: str | None = None


class CaptureFacts(Struct, frozen=True, kw_only=True):
    """What was captured of the parent. `clean`: its server was shut down.

    `checks` say what was verified of the copy, where the backend does not verify what the local one does. Without a
    `cut` the fork has all of the copy; then only the parent's WAL says what its last transaction is.
    """

    base_time: str | None = None
    start_lsn: str | None = None
    end_lsn: str | None = None
    timeline: int | None = None
    clean: bool = False
    size_bytes: int = 0
    segments: list[str] = []
    seconds: dict[str, float] = {}
    cut: Cut | None = None
    archive: Download | None = None
    checks: list[str] | None = None


class RecoveryFacts(Struct, frozen=True, kw_only=True):
    """Where the recovery of a fork has stopped, and what it has proven by that."""

    stop_lsn: str | None = None
    timeline: int | None = None
    last_commit_time: str | None = None
    first_excluded_time: str | None = None
    wal_replayed_bytes: int = 0


class ForkFacts(Struct, frozen=True, kw_only=True):
    """All that is stored for a fork's report. The last three are added some time after it is READY."""

    capture: CaptureFacts
    recovery: RecoveryFacts
    neutralised: dict[str, Any]
    unlogged_tables: list[str] = []
    cut: Cut | None = None
    statistics: str | None = None

    @property
    def known_cut(self) -> Cut | None:
        """The cut, as recovery determined it or as the parent's WAL showed it later; None while it is not known."""
        return self.capture.cut or self.cut


def fork_facts(stored: Mapping[str, Any]) -> ForkFacts:
    """Return a stored fork report."""
    return msgspec.convert(stored, ForkFacts)
