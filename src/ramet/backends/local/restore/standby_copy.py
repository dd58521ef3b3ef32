"""Base backups of standbys of databases elsewhere. Nothing can be written in a standby, so these differ in two points.

No WAL switch ends the backup: what it contains ends exactly at an LSN that was replayed, because the rest of the last
segment is blank. And no record in the WAL ends it: archive recovery has to replay all of it, to that LSN.
Times are those of the source's clock (docs/following.md).
"""

import shutil
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from ramet.backends.interface.values import Capture, SnapshotFacts
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore.base_backup import (
    NOT_DATA,
    OWN_SETTINGS,
    Base,
    Stopwatch,
    facts_of,
    facts_of_label,
)
from ramet.backends.local.restore.single_user import LABEL, RECOVERY_SIGNAL
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import row, value
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.wal.control_file import read_control_data, read_standby_end
from ramet.backends.local.wal.locate import WAL_DIRECTORY, BrokenChain, WalSource, copy_history, live_and_archived
from ramet.backends.local.wal.segment import SEGMENT_BYTES, segment_before, segments_in
from ramet.errors import Failed, Unavailable
from ramet.machine.installation import Installation
from ramet.model.snapshot import lsn_number

# Set in a capture's facts: archive recovery replays all of its WAL.
TO_THE_END = "to_the_end"
# Set in a capture's facts: all of its WAL is replayed, which ends exactly at `end_lsn`.
STANDBY = "standby"
# Set in the facts of a standby's capture: the timeline that its WAL leads to.
RECOVERED_ON = "recovered_on"
_CONTROL_FILE = "global/pg_control"
_LOOKS = 50
# A base backup may be dated so long after its last commit: the times of concurrent commits are out of order by less.
DATING_MARGIN = timedelta(seconds=2)
_PROGRESS = """
SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()::text, pg_last_xact_replay_timestamp(), c.checkpoint_time,
    w.last_msg_send_time, coalesce(pg_last_wal_replay_lsn() >= w.latest_end_lsn, false), w.pid IS NOT NULL
FROM pg_control_checkpoint() c LEFT JOIN pg_stat_wal_receiver w ON w.status = 'streaming'
"""


@dataclass(frozen=True)
class Replayed:
    """How far a standby is: `lsn` is the end of a record. Times are of the source's clock.

    No commit up to `lsn` has a time after `at_most`; every commit until `complete_until` is before `lsn`.
    """

    lsn: str
    at_most: datetime
    complete_until: datetime
    is_streaming: bool


def replayed(connection: connections.Connection) -> Replayed:
    """Return how far a standby is. Raises Unavailable when it is no standby any more, or does not know it yet."""
    in_recovery, lsn, commit, checkpoint, message, is_current, is_streaming = row(connection, _PROGRESS)
    if not in_recovery or lsn is None:
        raise Unavailable("NO_STANDBY", "The server is not a standby that replays WAL")
    times = [commit + DATING_MARGIN if commit else checkpoint, checkpoint, *([message] if message else [])]
    known = [commit or checkpoint, *([message - DATING_MARGIN] if message and is_current else [])]
    return Replayed(lsn, max(times), max(known), bool(is_streaming))


def copy_running_standby(driver: Driver, installation: Installation, parent: ServicePaths, target: Path) -> Base:
    """Copy a running standby to the new directory `target`: all that it had replayed before the call is in the copy."""
    clock = Stopwatch()
    try:
        with connections.connect(parent, statement_timeout="0") as connection:
            connection.execute("SELECT pg_backup_start(%s, true)", (f"ramet {target.name}",))
            clock.lap("backup_start")
            statistics = driver.clone_tree(parent.data, target, NOT_DATA)
            # It says from which LSN on the copy is consistent, so it has to be the last file.
            _copy_control_file(installation, parent, target)
            clock.lap("clone")
            next_xid = value(connection, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
            stop_lsn, label, links = row(
                connection, "SELECT lsn::text, labelfile, spcmapfile FROM pg_backup_stop(false)"
            )
            reached = replayed(connection)
            identifier = value(connection, "SELECT system_identifier FROM pg_control_system()")
            clock.lap("backup_stop")
    except psycopg.errors.ObjectNotInPrerequisiteState as error:
        raise Failed("STANDBY_NOT_COPIED", f"Service {parent.service_id} cannot be copied now", str(error)) from error
    if links:
        raise Failed("TABLESPACE", f"Service {parent.service_id} has tablespaces outside of its data directory", links)
    end_lsn = max(stop_lsn, reached.lsn, key=lsn_number)
    facts = facts_of_label(label, end_lsn, reached.at_most, next_xid, statistics)
    until = reached.complete_until
    base = Base(facts, identifier, clean=False, seconds=clock.laps, of_standby=True, complete_until=until)
    files.write(target / LABEL, label)
    files.write(target / OWN_SETTINGS)
    _place_wal(driver, parent, base, target)
    clock.lap("wal")
    return base


def copy_stopped_standby(driver: Driver, installation: Installation, parent: ServicePaths, target: Path) -> Base:
    """Copy a standby that was stopped cleanly. Raises Failed when it was not."""
    clock = Stopwatch()
    control = read_control_data(installation, parent.data)
    if not control.is_clean_standby:
        raise Failed(
            "NOT_CLEANLY_STOPPED",
            f"The server of service {parent.service_id} was not shut down cleanly; a copy of its files is not safe",
            f"State in its control file: {control.state}. Start the service once, or fork it from a snapshot.",
        )
    end_lsn, timeline = read_standby_end(installation, parent.data)
    if timeline != control.timeline:
        raise Failed("TIMELINE_SWITCHED", f"Service {parent.service_id} has just switched its timeline", "Start it.")
    statistics = driver.clone_tree(parent.data, target, NOT_DATA)
    files.write(target / OWN_SETTINGS)
    if read_control_data(installation, parent.data) != control:
        raise RuntimeError(f"the server of service {parent.service_id} was started while it was being copied")
    facts = SnapshotFacts(
        taken_at=control.checkpoint_time,
        start_lsn=control.redo_lsn,
        end_lsn=end_lsn,
        timeline=timeline,
        next_xid=control.next_xid,
        size_bytes=statistics.size_bytes,
    )
    base = Base(facts, control.system_identifier, clean=False, seconds=clock.laps, of_standby=True, has_label=False)
    _place_wal(driver, parent, base, target)
    clock.lap("clone")
    return base


def finish_standby(base: Base, data: Path) -> Capture:
    """Let recovery of a standby's base backup replay all of its WAL, and no other; return the capture."""
    files.write(data / RECOVERY_SIGNAL)
    return Capture(None, {**facts_of(base), **to_the_end(base.facts.end_lsn), **recovered_on(data)})


def recovered_on(data: Path) -> dict[str, Any]:
    """Return the fact of a capture that says which timeline its WAL leads to."""
    return {RECOVERED_ON: max(segment.timeline for segment in segments_in(data / WAL_DIRECTORY))}


def to_the_end(end_lsn: str) -> dict[str, Any]:
    """Return the facts of a capture whose WAL ends exactly at an LSN."""
    return {
        "end_lsn": end_lsn,
        STANDBY: True,
        TO_THE_END: True,
        "cut": {"last_included": None, "first_excluded": None},
    }


def end_exactly(data: Path, timeline: int, end_lsn: str) -> None:
    """Blank what follows an LSN in the last segment of a data directory: there the WAL ends."""
    number = segment_before(timeline, end_lsn).number
    segment = max(one for one in segments_in(data / WAL_DIRECTORY) if one.number == number)
    if lsn_number(end_lsn) == segment.end:
        return
    with files.changed(data / WAL_DIRECTORY / segment.name) as file:
        file.truncate(lsn_number(end_lsn) - segment.start)
        file.truncate(SEGMENT_BYTES)


def place_histories(parent: ServicePaths, data: Path) -> None:
    """Put the timeline histories of a standby beside its WAL: the first segment of a timeline begins on another one."""
    for directory in live_and_archived(parent):
        for history in directory.glob("*.history"):
            if not (data / WAL_DIRECTORY / history.name).exists():
                copy_history(history, data)


def _place_wal(driver: Driver, parent: ServicePaths, base: Base, target: Path) -> None:
    source = WalSource(driver, live_and_archived(parent), base.system_identifier, follows_timelines=True)
    try:
        source.place_all(base.segments, target, base.facts.end_lsn)
    except BrokenChain as broken:
        shutil.rmtree(target / WAL_DIRECTORY)
        raise Unavailable(broken.code, broken.message, broken.details) from broken
    end_exactly(target, base.facts.timeline, base.facts.end_lsn)
    place_histories(parent, target)


def _copy_control_file(installation: Installation, parent: ServicePaths, target: Path) -> None:
    """Copy the control file of a running server; a copy that was torn by a write is made again."""
    for _ in range(_LOOKS):
        files.write(target / _CONTROL_FILE, files.read_bytes(parent.data / _CONTROL_FILE))
        try:
            read_control_data(installation, target)
        except Failed:
            continue
        return
    raise Unavailable("CONTROL_FILE_BUSY", f"The control file of service {parent.service_id} is being written")


def replayed_since(parent: ServicePaths, lsn: str) -> int | None:
    """Return the bytes of WAL that a standby has replayed since an LSN; None when it does not serve."""
    try:
        with connections.connect(parent) as connection:
            return max(0, lsn_number(replayed(connection).lsn) - lsn_number(lsn))
    except Unavailable:
        return None


def live_end(parent: ServicePaths, target: datetime) -> Replayed:
    """Return how far a running standby is when it has all until a time.

    Raises Unavailable while that is on its way, Failed when it is not, because nothing arrives from the source.
    """
    with connections.connect(parent) as connection:
        found = replayed(connection)
    if found.complete_until >= target:
        return found
    if found.is_streaming:
        raise Unavailable("NOT_RECEIVED_YET", f"Service {parent.service_id} has not received the source until then yet")
    raise Failed(
        "NOT_RECEIVED",
        f"Service {parent.service_id} has what was committed in its source until"
        f" {found.complete_until.isoformat()}, and nothing arrives from there now",
        "Choose a time before that, or wait until the source is back.",
    )
