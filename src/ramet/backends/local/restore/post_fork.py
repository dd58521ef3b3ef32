"""What the report of a fork gets after it is READY."""

from typing import Any

from ramet.backends.interface.values import Capture
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore.recovery_target import WalReader
from ramet.backends.local.sql.unlogged import REPORTED_TABLES, unlogged_tables
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.wal.boundary import cut_at_lsn
from ramet.backends.local.wal.locate import WalSource, live_and_archived
from ramet.backends.local.wal.segment import Segment, segment_at, segment_before, segments_between
from ramet.machine.installation import Installation


def examine(
    driver: Driver, installation: Installation, child: ServicePaths, parent: ServicePaths | None, capture: Capture
) -> dict[str, Any]:
    """Return the unlogged tables of a fork, and for a fork without a target the end of its history.

    The end is read from the parent's WAL, if it still exists: the next commit may be known only now.
    """
    found: dict[str, Any] = {"unlogged_tables": unlogged_tables(child, REPORTED_TABLES)}
    if "cut" not in capture.facts and parent is not None and parent.data.is_dir():
        found["cut"] = _cut(driver, installation, parent, capture)
    return found


def _cut(driver: Driver, installation: Installation, parent: ServicePaths, capture: Capture) -> dict[str, Any]:
    facts = capture.facts
    border = segment_before(facts["timeline"], facts["end_lsn"])
    first = min(segment_at(facts["timeline"], facts["start_lsn"]), border)
    source = WalSource(driver, live_and_archived(parent), 0)
    there = [segment for segment in segments_between(first, border) if source.find(segment) is not None]
    following = Segment(border.timeline, border.number + 1)
    if border not in there:
        return cut_at_lsn([], facts["end_lsn"]).facts()
    unbroken = [segment for segment in there if set(segments_between(segment, border)) <= set(there)]
    reader = WalReader(source, installation.program("pg_waldump"))
    last = following if source.find(following) is not None else border
    return cut_at_lsn(reader.to_the_end(border.timeline, unbroken[0].start, last), facts["end_lsn"]).facts()
