"""Base backups: consistent copies of the data directory of a running server (in backup mode) or of a stopped one.

A base backup is self-contained: its pg_wal has the WAL that makes its data files consistent. PostgreSQL refuses to
start when a part of that is missing.
"""

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ramet.backends.interface.values import Capture, SnapshotFacts
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore.single_user import LABEL
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import row, value
from ramet.backends.local.volumes.driver import CloneStatistics, Driver, Exclusions
from ramet.backends.local.wal.control_file import read_control_data
from ramet.backends.local.wal.locate import WAL_DIRECTORY, WalSource, check_segment, live_and_archived, place_history
from ramet.backends.local.wal.segment import Segment, segment_at, segment_before, segments_between, segments_in
from ramet.errors import Failed
from ramet.machine.installation import Installation
from ramet.model.snapshot import lsn_number
from ramet.model.timestamps import rfc3339

# The file that ALTER SYSTEM writes; a copy does not inherit these settings.
OWN_SETTINGS = "postgresql.auto.conf"

# Files that belong to the process or the location and not to the data: PostgreSQL 18 docs, 25.3.4.1;
# docs/hazards.md, 1 to 3 and 18.
NOT_DATA = Exclusions(
    emptied=frozenset(
        (
            "pg_wal",
            "pg_replslot",
            "pg_stat_tmp",
            "pg_dynshmem",
            "pg_notify",
            "pg_serial",
            "pg_snapshots",
            "pg_subtrans",
        )
    ),
    names=(
        "postmaster.pid",
        "postmaster.opts",
        "pgsql_tmp*",
        "pg_internal.init*",
        "backup_label*",
        "tablespace_map*",
        "backup_manifest*",
        "current_logfiles*",
        f"{OWN_SETTINGS}*",
        "recovery.signal",
        "standby.signal",
    ),
)

_START = re.compile(r"^START WAL LOCATION: ([0-9A-F]+/[0-9A-F]+) ", re.MULTILINE)
_TIMELINE = re.compile(r"^START TIMELINE: (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Base:
    """A base backup, and how long its phases took. `clean` says that it starts without recovery.

    One `of_standby` needs archive recovery to the end of its WAL (standby_copy); without a label it was stopped. It may
    be dated later than the source's clock was at its end: that is known to have shown `complete_until`.
    The files of one that `is_packed` are compressed (volumes.packed), except its WAL.
    """

    facts: SnapshotFacts
    system_identifier: int
    clean: bool
    seconds: dict[str, float]
    of_standby: bool = False
    has_label: bool = True
    is_packed: bool = False
    complete_until: datetime | None = None

    @property
    def segments(self) -> list[Segment]:
        """Return the WAL segments that the base backup needs and contains."""
        facts = self.facts
        first = segment_at(facts.timeline, facts.start_lsn)
        last = first if self.clean else segment_before(facts.timeline, facts.end_lsn)
        return list(segments_between(first, last))

    def begins_after(self, segment: Segment) -> bool:
        """Tell whether the base backup needs no WAL of `segment` or earlier ones."""
        return self.segments[0].number > segment.number

    def check_copy(self, data: Path) -> None:
        """Raise Failed when the copy of the base backup in `data` lacks its label or sound WAL.

        Without a label PostgreSQL would start on files that were copied while they were written, and the data would be
        silently corrupt: the label makes it replay the WAL of the backup.
        """
        if not self.clean and self.has_label and not (data / LABEL).is_file():
            raise Failed(
                "LABEL_MISSING",
                f"{data} was copied from a running server and has no {LABEL}; its files are not consistent",
                "Fork once more.",
            )
        numbers = {segment.number: segment for segment in segments_in(data / WAL_DIRECTORY)} if self.of_standby else {}
        for planned in self.segments:
            segment = numbers.get(planned.number, planned)
            until = lsn_number(self.facts.end_lsn) if planned == self.segments[-1] else None
            if self.of_standby and until == segment.end:
                until = None
            check_segment(data / WAL_DIRECTORY / segment.name, segment, self.system_identifier, until)


def copied_bytes(driver: Driver, tree: Path) -> int:
    """Return what a copy of a data directory would take from the storage now; 0 where it is missing."""
    return driver.estimate_bytes(tree, NOT_DATA) if tree.is_dir() else 0


def copy_running(driver: Driver, parent: ServicePaths, target: Path) -> Base:
    """Copy the data directory of a running server to the new directory `target`, between backup start and stop.

    The copy contains every transaction that was committed before the call. Backup mode ends with the session, also when
    this process crashes. Raises Unavailable when the server does not accept connections.
    """
    clock = Stopwatch()
    with connections.connect(parent, statement_timeout="0") as connection:
        connection.execute("SELECT pg_backup_start(%s, true)", (f"ramet {target.name}",))
        clock.lap("backup_start")
        statistics = driver.clone_tree(parent.data, target, NOT_DATA)
        clock.lap("clone")
        # Transactions that are still running are not in the copy, so the oldest of them is the first later one.
        next_xid = value(connection, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
        end_lsn, label, links = row(connection, "SELECT lsn::text, labelfile, spcmapfile FROM pg_backup_stop(false)")
        taken_at = value(connection, "SELECT clock_timestamp()")
        identifier = value(connection, "SELECT system_identifier FROM pg_control_system()")
        clock.lap("backup_stop")
    if links:
        raise Failed("TABLESPACE", f"Service {parent.service_id} has tablespaces outside of its data directory", links)
    facts = facts_of_label(label, end_lsn, taken_at, next_xid, statistics)
    base = Base(facts, identifier, clean=False, seconds=clock.laps)
    files.write(target / LABEL, label)
    files.write(target / OWN_SETTINGS)
    WalSource(driver, live_and_archived(parent), identifier).place_all(base.segments, target, end_lsn)
    clock.lap("wal")
    return base


def copy_stopped(driver: Driver, installation: Installation, parent: ServicePaths, target: Path) -> Base:
    """Copy the data directory of a cleanly stopped server. Raises Failed when it was not stopped cleanly."""
    clock = Stopwatch()
    control = read_control_data(installation, parent.data)
    if not control.is_clean:
        raise Failed(
            "NOT_CLEANLY_STOPPED",
            f"The server of service {parent.service_id} was not shut down cleanly; a copy of its files is not safe",
            f"State in its control file: {control.state}. Start the service once, or fork it from a snapshot.",
        )
    statistics = driver.clone_tree(parent.data, target, NOT_DATA)
    files.write(target / OWN_SETTINGS)
    WalSource(driver, [parent.data / WAL_DIRECTORY], control.system_identifier).place(
        control.redo_segment, target, control.checkpoint_lsn, complete=False
    )
    place_history(control.timeline, live_and_archived(parent), target)
    if read_control_data(installation, parent.data) != control:
        raise RuntimeError(f"the server of service {parent.service_id} was started while it was being copied")
    clock.lap("clone")
    facts = SnapshotFacts(
        taken_at=datetime.now(UTC),
        start_lsn=control.checkpoint_lsn,
        end_lsn=control.checkpoint_lsn,
        timeline=control.timeline,
        next_xid=control.next_xid,
        size_bytes=statistics.size_bytes,
    )
    return Base(facts, control.system_identifier, clean=True, seconds=clock.laps)


class Stopwatch:
    """Seconds of consecutive phases."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._since = time.monotonic()

    def lap(self, phase: str) -> None:
        """End a phase."""
        now = time.monotonic()
        self.laps[phase] = round(now - self._since, 6)
        self._since = now


def facts_of_label(
    label: str, end_lsn: str, taken_at: datetime, next_xid: int, statistics: CloneStatistics
) -> SnapshotFacts:
    """Return what is recorded of a backup with this label."""
    start, timeline = _START.search(label), _TIMELINE.search(label)
    if start is None or timeline is None:
        raise AssertionError("BUG: a backup label without start and timeline")
    return SnapshotFacts(taken_at, start[1], end_lsn, int(timeline[1]), next_xid, statistics.size_bytes)


def capture_of_base(base: Base) -> Capture:
    """Return the capture of a base backup to which no WAL is added."""
    return Capture(None, facts_of(base))


def facts_of(base: Base) -> dict[str, Any]:
    """Return what a fork's report says about its base backup."""
    facts = base.facts
    return {
        "base_time": rfc3339(facts.taken_at),
        "start_lsn": facts.start_lsn,
        "end_lsn": facts.end_lsn,
        "timeline": facts.timeline,
        "clean": base.clean,
        "size_bytes": facts.size_bytes,
        "segments": [segment.name for segment in base.segments],
        "seconds": base.seconds,
    }
