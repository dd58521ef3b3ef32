"""Where the WAL of a timeline ends that a service has left, because its data was replaced.

A server that was killed has not archived its last segment; if it cannot be started any more, nobody else does. The
archive records the last segment of the timeline, so that no recovery takes the end of what is archived for the end.
"""

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import is_of_disk
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore import snapshots
from ramet.backends.local.restore.base_backup import Base
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.wal.archive import add_histories
from ramet.backends.local.wal.control_file import ControlData, find_control_data, read_control_data
from ramet.backends.local.wal.locate import WAL_DIRECTORY, WalSource
from ramet.backends.local.wal.segment import (
    PAGE_BYTES,
    UNREADABLE,
    Segment,
    end_of_records,
    fault_of,
    segment_at,
    segment_before,
    segment_named,
    segments_in,
    shown_lsn,
)
from ramet.machine.installation import Installation
from ramet.model.timestamps import parse_timestamp, rfc3339

_log = logging.getLogger(__name__)


def recorded(archive: Path, timeline: int) -> Segment | None:
    """Return the last segment of a timeline that was left; None when that was not recorded."""
    return segment_named(files.read(_record(archive, timeline)).partition("\n")[0].strip())


def left_at(archive: Path, timeline: int) -> datetime | None:
    """Return when a timeline was left: later times are not on it. None when that was not recorded."""
    found = files.read(_record(archive, timeline)).partition("\n")[2].strip()
    return parse_timestamp("time", found) if found else None


def end(driver: Driver, before: ServicePaths, after: ServicePaths, installation: Installation) -> None:
    """Record in the archive of `after` how far the WAL of the data in `before` reaches, and archive the rest of it.

    That includes the segment in which it ends, so the data must not get its archive back. May run again.
    """
    bases = _bases_left(after, installation)
    control = find_control_data(installation, before.data)
    if not bases or (control is not None and control.timeline != bases[-1].facts.timeline):
        return  # nothing can be restored from that timeline
    wal, archive = before.data / WAL_DIRECTORY, after.archive
    # What was recorded stays: when this runs again, the data may have been removed.
    last = recorded(archive, bases[-1].facts.timeline) or _last_segment(driver, wal, after, bases[-1], control)
    left = left_at(archive, last.timeline) or datetime.now(UTC)
    files.write(_record(archive, last.timeline), f"{last.name}\n{rfc3339(left)}\n", durable=True)
    first, identifier = bases[0].segments[0], bases[0].system_identifier
    with _warned("the timeline histories", after):
        add_histories(wal, archive)
    with _warned("the WAL", after):
        for segment in segments_in(wal) if files.is_there(wal) else []:
            if first <= segment <= last:
                with _warned(f"segment {segment.name}", after):
                    _archive(driver, wal / segment.name, archive / segment.name, segment, identifier)
        files.flush(archive)


def _bases_left(after: ServicePaths, installation: Installation) -> list[Base]:
    """Return the snapshots of the timeline that a service has left last, in the order of the WAL."""
    present = read_control_data(installation, after.data).timeline
    earlier = [base for _, base in snapshots.in_wal_order(after) if base.facts.timeline < present]
    return [base for base in earlier if base.facts.timeline == earlier[-1].facts.timeline]


def _last_segment(driver: Driver, wal: Path, after: ServicePaths, newest: Base, control: ControlData | None) -> Segment:
    """Return the last segment with WAL that a restore may need; one that is lost, if it must have existed."""
    timeline = newest.facts.timeline
    if control is not None and control.is_clean:
        return segment_before(timeline, shown_lsn(end_of_records(control.checkpoint_lsn)))
    begun = Segment(timeline, 0)
    with _warned("the end of the WAL", after):
        begun = WalSource(driver, [wal], newest.system_identifier).last_written(begun)
    there = max([newest.segments[-1], *(one for one in segments_in(after.archive) if one.timeline == timeline)])
    if begun < there:
        begun = Segment(timeline, there.number + 1)
    return begun if control is None else max(begun, segment_at(timeline, control.checkpoint_lsn))


def _archive(driver: Driver, path: Path, target: Path, segment: Segment, system_identifier: int) -> None:
    """Archive a segment, unless it is archived, or no record of the timeline is in it."""
    if files.is_there(target):
        return
    fault = fault_of(path, segment, system_identifier, segment.start + PAGE_BYTES)
    if fault == UNREADABLE:  # a clone that shares its blocks would not fail, and would hide the gap
        raise OSError(errno.EIO, UNREADABLE, str(path))
    if fault is None:
        driver.clone_file(path, target)
        files.flush(target)


@contextmanager
def _warned(what: str, after: ServicePaths) -> Iterator[None]:
    """Go on where the disk cannot read or write a part of the WAL: the record says what is missing."""
    try:
        yield
    except OSError as error:
        if not is_of_disk(error):
            raise
        _log.warning("%s of service %s before its restore is not archived: %s", what, after.service_id, error)


def _record(archive: Path, timeline: int) -> Path:
    return archive / f"{timeline:08X}.end"
