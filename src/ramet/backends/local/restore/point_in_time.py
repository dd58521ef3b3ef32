"""Point-in-time recovery: copy a snapshot, and the WAL from it to the recovery target, into a fork."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ramet.backends.interface.values import Capture
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore import snapshots, timeline_ends
from ramet.backends.local.restore.base_backup import Base, Stopwatch, capture_of_base, copy_stopped, facts_of
from ramet.backends.local.restore.recovery_target import (
    LiveEnd,
    RecoveryEnd,
    WalReader,
    end_in,
    end_on_disk,
    find_recovery_end,
    last_reachable,
)
from ramet.backends.local.restore.single_user import RECOVERY_SIGNAL
from ramet.backends.local.restore.standby_copy import (
    TO_THE_END,
    end_exactly,
    finish_standby,
    live_end,
    place_histories,
    recovered_on,
    to_the_end,
)
from ramet.backends.local.server.configuration import USUAL_PREPARED
from ramet.backends.local.sql.commit_beyond import commit_beyond
from ramet.backends.local.volumes.driver import Driver, Exclusions
from ramet.backends.local.wal.control_file import (
    ControlData,
    read_control_data,
    read_max_prepared_transactions,
    read_standby_end,
)
from ramet.backends.local.wal.digests import recorded_files
from ramet.backends.local.wal.locate import WAL_DIRECTORY, BrokenChain, WalSource, live_and_archived
from ramet.backends.local.wal.segment import Segment, segment_at, segment_before, segments_between, segments_in
from ramet.errors import Failed
from ramet.machine.installation import Installation
from ramet.model.timestamps import rfc3339

# Set in a capture's facts: the last WAL record to replay; None: the end of the base backup.
RECOVER_TO_LSN = "recover_to_lsn"
# Set in a capture's facts: the parent's max_prepared_transactions where that was raised after the base backup.
MOST_PREPARED = "most_prepared"
_SECOND = timedelta(seconds=1)
_WITHOUT_WAL = Exclusions(emptied=frozenset((WAL_DIRECTORY,)))


@dataclass(frozen=True)
class Extent:
    """The WAL of an archive: its last segment before any is missing, and that missing one if there were others."""

    last: Segment
    missing: Segment | None


def extent_of(archive: Path, first: Segment) -> Extent:
    """Return which WAL of a timeline an archive has after `first`, the last segment of a base backup, which has it."""
    there, last = {one for one in segments_in(archive) if one.timeline == first.timeline}, first
    while (following := Segment(last.timeline, last.number + 1)) in there:
        last = following
    end = timeline_ends.recorded(archive, first.timeline)
    was_there = (end is not None and end > last) or any(segment > following for segment in there)
    return Extent(last, following if was_there else None)


@dataclass(frozen=True)
class RollForward:
    """One capture for one recovery target.

    `paused` says that the parent's server was shut down cleanly, `down` that it crashed: then its last state is the end
    of its WAL. Of a parent that has an archive only, `extent` says which WAL there is.
    Of one that `is_standby` nothing is known but what it has replayed.
    """

    driver: Driver
    installation: Installation
    parent: ServicePaths
    snapshot_id: str
    target: datetime
    paused: bool
    down: bool = False
    extent: Extent | None = None
    is_standby: bool = False

    def into(self, data: Path) -> Capture:
        """Fill the new tree `data`; it needs recovery, unless the target is the last state of a paused parent.

        Raises Unavailable when the parent should run and does not accept connections.
        """
        base = snapshots.base_of(self.parent, self.snapshot_id)
        if self._has_left(base.facts.timeline):
            self._check_left_later(base.facts.timeline)
            return self._of_earlier_timeline(base).into(data)
        bases = self._bases(base)
        reader = WalReader(self._source(bases, base), self.installation.program("pg_waldump"))
        clock = Stopwatch()
        try:
            if self.paused and not self.is_standby and self._was_stopped_before(self.target):
                return self._copy_stopped(data)
            end = find_recovery_end(reader, bases, self.snapshot_id, self.target, self._live_end(reader, bases))
            clock.lap("find")
            return self._fill(data, end, reader.source, clock)
        except BrokenChain as broken:
            raise self._with_remedy(broken, base, reader) from broken

    def _has_left(self, timeline: int) -> bool:
        """Tell whether the parent's data was replaced since a base backup: it is on another timeline then.

        Between a promotion and the next checkpoint only the end of recovery is known to be on the new one.
        """
        if self.extent is not None or self.is_standby or not self.parent.data.is_dir():
            return False
        _, recovered_to = read_standby_end(self.installation, self.parent.data)
        return max(self._control_data().timeline, recovered_to) != timeline

    def _check_left_later(self, timeline: int) -> None:
        """Refuse a target at which the parent's data was replaced already.

        Its snapshots since are not known where the store is an earlier one, from a backup.
        """
        facts = [base.facts for _, base in snapshots.in_wal_order(self.parent)]
        times = [timeline_ends.left_at(self.parent.archive, timeline)]
        times += [one.taken_at for one in facts if one.timeline > timeline]
        left = min((time for time in times if time is not None), default=None)
        if left is not None and left <= self.target:
            raise Failed(
                "SNAPSHOT_UNKNOWN",
                f"The data of service {self.parent.service_id} was replaced at {rfc3339(left)}, and no snapshot between"
                f" that and {rfc3339(self.target)} is known",
                "Fork it as of an earlier time, or as of now. Was the store restored from a backup?",
            )

    def _of_earlier_timeline(self, base: Base) -> "RollForward":
        """Return the same for a parent of which the archive has all WAL of that timeline: nobody writes any more.

        Of a standby that was promoted the segment in which its WAL ends is missing there under that name.
        """
        extent = extent_of(self.parent.archive, base.segments[-1])
        if base.of_standby and extent.missing is None:
            is_archived = (self.parent.archive / extent.last.name).exists()
            ends_in = Segment(extent.last.timeline, extent.last.number + 1) if is_archived else extent.last
            extent = replace(extent, missing=ends_in)
        return replace(self, paused=False, down=True, extent=extent)

    def _bases(self, chosen: Base) -> list[tuple[str, Base]]:
        """Return the snapshots whose WAL is that of the chosen one, in its order."""
        found = snapshots.in_wal_order(self.parent)
        if self.is_standby:
            return found
        return [(name, base) for name, base in found if base.facts.timeline == chosen.facts.timeline]

    def _source(self, bases: Sequence[tuple[str, Base]], first: Base) -> WalSource:
        # The newest first: of the last segment of a snapshot, a later one may have more.
        with_wal = [name for name, base in reversed(bases) if base.facts.wal_order >= first.facts.wal_order]
        places = [snapshots.data_of(self.parent, name) / WAL_DIRECTORY for name in with_wal]
        noted = recorded_files(self.parent)
        return WalSource(
            self.driver,
            [*live_and_archived(self.parent), *places],
            first.system_identifier,
            noted,
            follows_timelines=self.is_standby,
        )

    def _fill(self, data: Path, end: RecoveryEnd, source: WalSource, clock: Stopwatch) -> Capture:
        cut, base = end.cut, end.base
        is_base = cut.first_excluded is not None and cut.recover_to is None
        if cut.first_excluded is None and self.is_standby:
            return self._replay_all_of_standby(data, end, source, clock)
        if cut.first_excluded is None and self.paused:
            return self._copy_stopped(data)
        if cut.first_excluded is None and not self.down:
            fault = "does not contain the transaction that was committed last"
            raise BrokenChain("WAL_DAMAGED", segment_before(base.facts.timeline, end.read_until), fault)
        if cut.first_excluded is None and self.extent is not None and self.extent.missing is not None:
            raise BrokenChain("WAL_MISSING", self.extent.missing, "is missing")
        # What comes from an archive must leave its timeline, by archive recovery: the archive has more WAL of it.
        if is_base and (base.of_standby or (base.clean and self.extent is None)):
            return self._copy_base(data, end)
        segments = self._place(data, end, source, clock)
        facts = {**facts_of(base), "segments": segments, "seconds": clock.laps, "cut": cut.facts()}
        facts |= raised_limit(self.parent.data, data)
        if self.is_standby:
            facts |= recovered_on(data)
        if cut.first_excluded is None:
            return Capture(None, {**facts, "end_lsn": end.read_until, TO_THE_END: True})
        return Capture(self.target, {**facts, RECOVER_TO_LSN: None if cut.recover_to is None else cut.recover_to.lsn})

    def _replay_all_of_standby(self, data: Path, end: RecoveryEnd, source: WalSource, clock: Stopwatch) -> Capture:
        """Copy a base backup of a standby with all that was replayed after it."""
        base, facts = end.base, {**facts_of(end.base), "seconds": clock.laps}
        segments = self._place(data, end, source, clock)
        if not self.paused and not self.down:
            end_exactly(data, base.facts.timeline, end.read_until)
        ending = to_the_end(end.read_until) | {"cut": end.cut.facts()}
        facts |= {"segments": segments, **ending, **recovered_on(data)}
        return Capture(None, facts | raised_limit(self.parent.data, data))

    def _place(self, data: Path, end: RecoveryEnd, source: WalSource, clock: Stopwatch) -> list[str]:
        """Put the base backup and the WAL to replay into the new tree; return the names of the segments."""
        until_lsn, timeline = _needed_until(end), end.base.facts.timeline
        segments = list(segments_between(end.base.segments[0], segment_before(timeline, until_lsn)))
        snapshots.copy_data(self.driver, self.parent, end.base_name, data, _WITHOUT_WAL)
        clock.lap("clone")
        source.place_all(segments, data, until_lsn)
        if self.is_standby:
            place_histories(self.parent, data)
        files.write(data / RECOVERY_SIGNAL)
        clock.lap("wal")
        return [segment.name for segment in segments]

    def _was_stopped_before(self, target: datetime) -> bool:
        return self._control_data().checkpoint_time + _SECOND <= target

    def _control_data(self) -> ControlData:
        return read_control_data(self.installation, self.parent.data)

    def _copy_stopped(self, data: Path) -> Capture:
        return capture_of_base(copy_stopped(self.driver, self.installation, self.parent, data))

    def _copy_base(self, data: Path, end: RecoveryEnd) -> Capture:
        """Copy a base backup that is the requested state: a clean one, to which there is nothing to replay.

        Or one of a standby, also when the service was promoted since. All of its WAL is replayed: the end of the backup
        may be before commits that it has.
        """
        snapshots.copy_data(self.driver, self.parent, end.base_name, data)
        end.base.check_copy(data)
        made = finish_standby(end.base, data) if end.base.of_standby else capture_of_base(end.base)
        return replace(made, facts=made.facts | {"cut": end.cut.facts()})

    def _live_end(self, reader: WalReader, bases: Sequence[tuple[str, Base]]) -> LiveEnd:
        """Return the end of the parent's WAL, which is determined only when it is needed."""
        if self.is_standby:
            return self._standby_end(reader, bases)
        if not self.paused and not self.down:
            return LiveEnd(lambda: commit_beyond(self.parent, self.target), datetime.now(UTC))
        if self.paused:
            control = self._control_data()
            return LiveEnd(lambda: control.checkpoint_lsn, control.checkpoint_time)
        return LiveEnd(lambda: self._end_on_disk(reader, bases[-1][1]), None)

    def _standby_end(self, reader: WalReader, bases: Sequence[tuple[str, Base]]) -> LiveEnd:
        if self.paused or self.down:
            return LiveEnd(lambda: self._end_on_disk(reader, bases[-1][1]), None)
        found = live_end(self.parent, self.target)
        return LiveEnd(lambda: found.lsn, found.at_most)

    def _end_on_disk(self, reader: WalReader, newest: Base) -> str:
        if self.extent is not None:
            return end_in(reader, newest, self.extent.last)
        control = self._control_data()
        return end_on_disk(reader, newest, segment_at(control.timeline, control.checkpoint_lsn))

    def _with_remedy(self, broken: BrokenChain, base: Base, reader: WalReader) -> Failed:
        before = last_reachable(reader, base, broken.segment)
        bases = [one for _, one in snapshots.in_wal_order(self.parent)]
        after = min((one.facts.taken_at for one in bases if one.begins_after(broken.segment)), default=None)
        times = [rfc3339(time) for time in (before, after) if time is not None]
        nearest = f"Nearest restorable times: {', '.join(times)}." if times else "Use fork_strategy NOW."
        return Failed(
            broken.code,
            f"Service {self.parent.service_id} cannot be restored to {rfc3339(self.target)}: {broken.message}",
            nearest,
        )


def raised_limit(parent: Path, data: Path) -> dict[str, Any]:
    """Return the parent's limit of prepared transactions for recovery, where that was raised after the base backup.

    The control file of the data gets it only by recovery, which must have room for all that were prepared since.
    """
    raised = read_max_prepared_transactions(parent)
    return {MOST_PREPARED: raised} if raised > max(USUAL_PREPARED, read_max_prepared_transactions(data)) else {}


def _needed_until(end: RecoveryEnd) -> str:
    """Return the LSN up to which a fork needs the WAL: recovery stops at a record, or before the next one."""
    if end.cut.first_excluded is None or (end.cut.recover_to is None and end.base.clean):
        return end.read_until
    return end.base.facts.end_lsn if end.cut.recover_to is None else end.cut.recover_to.end_lsn
