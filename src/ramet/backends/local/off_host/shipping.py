"""WAL from the local archive of a service to the object store, in order and without gaps."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import psycopg
from msgspec.structs import replace

from ramet.archive.layout import is_wal_file
from ramet.archive.wal import WalArchive
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host.progress import WalProgress, read_progress, write_progress
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.rows import row
from ramet.backends.local.wal.segment import SEGMENT_BYTES, Segment, segment_named, segments_in
from ramet.errors import Failed, Unavailable
from ramet.model.snapshot import lsn_number

_QUIET_SEGMENT = timedelta(seconds=45)
# The time comes first: what was committed before it is in the WAL before the LSN.
_STATE = "SELECT clock_timestamp(), pg_current_wal_insert_lsn()::text, pg_current_snapshot()::text"


@dataclass(frozen=True)
class Seen:
    """The state of a server at a time: everything committed before `at` is in the WAL before `lsn`.

    `transactions` names those that run and the next one: while it is the same, none has ended.
    """

    at: datetime
    lsn: int
    transactions: str


@dataclass
class Watch:
    """What was seen of a server and is not known to be archived yet, oldest first, and what is."""

    waiting: list[Seen] = field(default_factory=list)
    archived: Seen | None = None

    def add(self, seen: Seen) -> None:
        """Remember a state. Of many that wait, every second one is dropped: the lag is then shown a little too long."""
        if len(self.waiting) >= 1000:
            self.waiting = self.waiting[::2]
        self.waiting.append(seen)

    def archived_until(self, end: int) -> datetime | None:
        """Return the time before which all commits are in the WAL before `end`; None when that is not known."""
        while self.waiting and self._is_archived(self.waiting[0], end):
            self.archived = self.waiting.pop(0)
        return None if self.archived is None else self.archived.at

    def wants_switch(self) -> bool:
        """Tell whether what was committed has waited long enough for the end of its segment to be switched early."""
        return bool(self.waiting) and (
            self.archived is None or self.waiting[-1].at - self.waiting[0].at > _QUIET_SEGMENT
        )

    def _is_archived(self, seen: Seen, end: int) -> bool:
        """Tell whether it is archived: its WAL is, or no transaction has ended since a state that is."""
        is_unchanged = self.archived is not None and self.archived.transactions == seen.transactions
        return seen.lsn <= end or is_unchanged


def see(paths: ServicePaths) -> Seen | None:
    """Return the state of a serving server, None when it does not serve."""
    try:
        with connections.connect(paths, timeout_seconds=2, statement_timeout="2s") as connection:
            at, lsn, transactions = row(connection, _STATE)
    except (Unavailable, psycopg.Error):
        return None
    return Seen(at, lsn_number(lsn), transactions)


def switch_segment(paths: ServicePaths) -> None:
    """Close the current WAL segment of a serving server, so that it is archived though it is not full."""
    with (
        contextlib.suppress(Unavailable, psycopg.Error),
        connections.connect(paths, timeout_seconds=2, statement_timeout="2s") as connection,
    ):
        connection.execute("SELECT pg_switch_wal()")


def ship(paths: ServicePaths, wal: WalArchive, seconds: float) -> WalProgress:
    """Send archived WAL files that the store does not have yet, in order, for about `seconds`. May run twice.

    Raises Failed when a segment is missing between two that are there, Unavailable when the store does not answer.
    """
    progress, deadline = read_progress(paths, WalProgress), time.monotonic() + seconds
    for name in _other_files(paths, progress):
        wal.upload(paths.archive / name)
        progress = replace(progress, other_files=(*progress.other_files, name))
        write_progress(paths, progress)
    for segment in _segments(paths, progress):
        wal.upload(paths.archive / segment.name)
        progress = replace(progress, segment=segment.name)
        write_progress(paths, progress)
        if time.monotonic() > deadline:
            break
    return progress


def is_complete(paths: ServicePaths, progress: WalProgress) -> bool:
    """Tell whether the store has all that the local archive has."""
    return next(_segments(paths, progress), None) is None


def end_of(progress: WalProgress) -> int:
    """Return the LSN before which the store has all WAL; 0 before the first segment."""
    segment = segment_named(progress.segment)
    return 0 if segment is None else segment.end


def _other_files(paths: ServicePaths, progress: WalProgress) -> list[str]:
    names = (path.name for path in paths.archive.iterdir())
    return sorted(
        name for name in names if is_wal_file(name) and segment_named(name) is None and name not in progress.other_files
    )


def _segments(paths: ServicePaths, progress: WalProgress) -> Iterator[Segment]:
    """Yield the segments to send. Raises Failed where one is missing."""
    last = segment_named(progress.segment)
    for segment in segments_in(paths.archive):
        if last is not None and segment <= last:
            continue
        if last is not None and segment.timeline == last.timeline and segment.number != last.number + 1:
            missing = Segment(last.timeline, last.number + 1)
            raise Failed(
                "ARCHIVE_GAP",
                f"WAL segment {missing.name} is missing from the local archive of service {paths.service_id}",
                "Later segments are not sent until a new base backup is complete.",
            )
        if (paths.archive / segment.name).stat().st_size != SEGMENT_BYTES:
            return  # it is being linked there
        yield segment
        last = segment
