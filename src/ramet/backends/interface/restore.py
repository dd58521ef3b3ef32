"""Snapshots, archived WAL, and the forks that are restored from them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from ramet.backends.interface.values import Capture, Progress, Server, SnapshotFacts, Source
from ramet.model.gaps import Gap
from ramet.model.snapshot import Snapshot

# Raised as Unavailable by what takes a snapshot: it is cut, and the storage works on it. The server is not needed then.
SNAPSHOT_UNDER_WAY = "SNAPSHOT_UNDER_WAY"
# Raised as Failed by `recover` and a first start: the host may have lost what was captured.
INTERRUPTED_BY_REBOOT = "INTERRUPTED_BY_REBOOT"
# Raised as Failed by `verify_data`: something else than damage prevents it.
DATA_NOT_READ = "DATA_NOT_READ"
# Raised as Failed by `analyze` for what it does not expect: it returns why the statistics of a table are not collected.
NOT_ANALYZED = "NOT_ANALYZED"


class Restore(Protocol):
    """What is kept of the past of services, and what is made of it."""

    def check_fork(self, source: Source, as_of: datetime | None, count: int = 1) -> None:
        """Raise Exhausted when there is no room for `count` such forks, Invalid when a library that it needs is gone.

        `as_of` is the time of the state that the fork begins with; None: the parent as it is now.
        """

    def capture(self, child: Server, source: Source) -> Capture | None:
        """Copy the data of `source` into the child's new volume; the parent is not harmed.

        Afterwards the parent is not needed, unless the Capture says so: then it is until `recover` is over.
        None means that the parent's server is not serving now: ask again.
        """

    def recover(self, child: Server, capture: Capture, timeout_seconds: float) -> Progress:
        """Bring captured data to the state that `capture` names, and prove it; watch for at most `timeout_seconds`.

        No client can reach it during that time. Raises Failed when it cannot get there, or stopped elsewhere.
        """

    def report_on_fork(self, child: Server, parent_id: str | None) -> dict[str, Any]:
        """Return what a serving fork's report should add: what is not in it, and where its history ends."""

    def analyze(self, server: Server, timeout_seconds: float) -> str | None:
        """Collect the statistics of a serving server; return how that ended, None while it is under way.

        Raises Unavailable while the server does not run, and when it was stopped before that was over. One that is lost
        during that keeps only a few tables from being analyzed, or ends it: ANALYZE may be what crashes it.
        """

    def verify_data(self, server: Server, timeout_seconds: float) -> str | None:
        """Read all data of a throw-away server for damage; None while it is running, then the complaints, or "".

        Raises Unavailable when the server ends, and Failed when something else prevents it: neither is damage.
        """

    def verify_archive(self, service_id: str, after: str) -> str | None:
        """Compare some of the archived WAL with its checksums, from the name `after` on.

        Return the name to continue from, None at the end. Raises Failed there when anything was wrong; segments that
        nothing can replace are in `gaps` too.
        """

    def take_snapshot(self, server: Server, snapshot_id: str, paused: bool) -> SnapshotFacts | None:
        """Make a snapshot; None means that the server is not serving now: ask again."""

    def prepare_snapshot(self, server: Server, snapshot_id: str, timeout_seconds: float, spares: int) -> str | None:
        """Make the newest snapshot quick to fork; None when it is, a text that changes while it is being prepared.

        As many as `spares` forks, up to MOST_SPARES, find all done when they come at once; with 0 no fork is likely.
        Raises Failed when the snapshot cannot be recovered. A backend on which every fork takes as long returns None at
        once.
        """

    def discard_preparation(self, service_id: str, snapshot_id: str) -> None:
        """Remove what `prepare_snapshot` made, also half made."""

    def delete_snapshot(self, service_id: str, snapshot_id: str) -> None:
        """Remove a snapshot."""

    def snapshot_ids(self, service_id: str) -> frozenset[str] | None:
        """Return the snapshots whose data is there; None when it is unknown, because all of the service is gone."""

    def discard_wal(self, service_id: str, oldest: Snapshot | SnapshotFacts) -> int:
        """Remove archived WAL that no fork of `oldest` or a later state needs; return the number of files removed."""

    def gaps(self, service_id: str, snapshots: Sequence[Snapshot]) -> Sequence[Gap]:
        """Return the times after the oldest of `snapshots` that missing WAL has made unreachable, in order."""

    def written_since(self, server: Server, snapshot: Snapshot | SnapshotFacts) -> int | None:
        """Return the bytes of WAL since a snapshot; 0 when no transaction wrote anything; None when not serving."""
