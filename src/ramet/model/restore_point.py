"""The restore point of a fork request, chosen from what is known of the parent, without any I/O."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ramet.errors import Invalid, WrongState
from ramet.likeness import suggestion
from ramet.model.archive import ArchiveSpan
from ramet.model.fork import ForkStrategy
from ramet.model.gaps import Gap, check_gaps
from ramet.model.restore_window import window_gaps
from ramet.model.snapshot import Snapshot, base_for, clock_steps, named, newest, rollable
from ramet.model.timestamps import rfc3339

_NEW_WINDOW = timedelta(hours=1)


@dataclass(frozen=True)
class RestorePoint:
    """The state to restore: a base snapshot, a target time, both, or neither (now).

    `awaits_snapshot` means that the base snapshot is still to be taken. What is `from_archive` comes from the off-host
    archive: the target, or without one the last state that it has.
    """

    strategy: ForkStrategy
    base: Snapshot | None = None
    target: datetime | None = None
    awaits_snapshot: bool = False
    from_archive: bool = False


@dataclass(frozen=True)
class Ancestor:
    """A service that the data of a fork came from. `earliest` is where its restore window begins; None: it has none."""

    service_id: str
    name: str
    created_at: datetime
    is_gone: bool
    is_fork: bool
    earliest: datetime | None


@dataclass(frozen=True)
class Parent:
    """What is known of a service when a fork of it is requested.

    `is_behind`: a fork as of now holds more than the newest snapshot, or there is none, and one can be taken.
    `has_snapshot_under_way`: one is being taken; `names_under_way` are the names of those that are taken by hand.
    `ancestors` are those of a fork, nearest first; they matter only to a target before it was created. `archive` is
    what the off-host archive has; of a service that `is_deleted` there is nothing else.
    """

    service_id: str
    created_at: datetime
    is_fork: bool = False
    snapshots: Sequence[Snapshot] = ()
    gaps: Sequence[Gap] = ()
    is_behind: bool = False
    has_snapshot_under_way: bool = False
    names_under_way: Sequence[str] = ()
    ancestors: Sequence[Ancestor] = ()
    archive: ArchiveSpan | None = None
    is_deleted: bool = False

    def with_gaps(self, gaps: Sequence[Gap]) -> "Parent":
        """Return the same with the gaps in its restore window."""
        return replace(self, gaps=gaps)


def choose(
    strategy: ForkStrategy, target: datetime | None, snapshot_id: str | None, parent: Parent, now: datetime
) -> RestorePoint:
    """Return the restore point of a request whose target was checked. Raises Invalid when there is none.

    `snapshot_id` is the id or the name of a snapshot; raises WrongState while the newest of that name is being taken.
    LAST_SNAPSHOT has no base yet while the parent's first snapshot is still being taken.
    """
    if parent.is_deleted:
        return _of_deleted(strategy, target, snapshot_id, parent)
    if snapshot_id is not None:
        return _named(strategy, snapshot_id, parent)
    if strategy is ForkStrategy.NOW:
        return RestorePoint(strategy)
    if strategy is ForkStrategy.LAST_SNAPSHOT:
        return _newest(strategy, parent)
    if target is None:
        raise AssertionError("BUG: a checked PITR request has a target")
    base = base_for(list(parent.snapshots), target)
    is_local = base is not None and not any(gap.contains(target) for gap in parent.gaps)
    if not is_local and parent.archive is not None and parent.archive.contains(target):
        return RestorePoint(strategy, None, target, from_archive=True)
    local = min((snapshot.taken_at for snapshot in rollable(list(parent.snapshots))), default=None)
    check_gaps(window_gaps(local, parent.gaps, parent.archive), target)
    if base is None:
        raise _unreachable(target, parent, now)
    return RestorePoint(strategy, base, target)


def _of_deleted(
    strategy: ForkStrategy, target: datetime | None, snapshot_id: str | None, parent: Parent
) -> RestorePoint:
    if strategy is ForkStrategy.LAST_SNAPSHOT or snapshot_id is not None:
        raise Invalid(
            "SNAPSHOT_NOT_FOUND",
            f"Service {parent.service_id} was deleted together with its snapshots",
            "Send fork_strategy PITR with target_time, or NOW for the last state that the off-host archive has.",
        )
    held = parent.archive
    if held is None:
        raise Invalid(
            "NOT_IN_ARCHIVE",
            f"The off-host archive has nothing of the deleted service {parent.service_id} any more",
        )
    if target is not None and not held.earliest <= target <= held.latest:
        raise Invalid(
            "OUTSIDE_RESTORE_WINDOW",
            f"target_time {rfc3339(target)} is outside of what the off-host archive has of the deleted service"
            f" {parent.service_id}: from {rfc3339(held.earliest)} to {rfc3339(held.latest)}",
            "Choose a time within it.",
        )
    if target is not None:
        check_gaps(held.gaps, target)
    return RestorePoint(strategy, None, target, from_archive=True)


def _newest(strategy: ForkStrategy, parent: Parent) -> RestorePoint:
    last = None if parent.is_behind else newest(list(parent.snapshots))
    if last is None and not parent.is_behind and not parent.has_snapshot_under_way:
        raise Invalid(
            "SNAPSHOT_NOT_FOUND",
            f"Service {parent.service_id} has no snapshot, and none can be taken of it now",
            "Try again when the service is READY or PAUSED.",
        )
    return RestorePoint(strategy, last, awaits_snapshot=parent.is_behind)


def _named(strategy: ForkStrategy, snapshot_id: str, parent: Parent) -> RestorePoint:
    if strategy is not ForkStrategy.LAST_SNAPSHOT:
        raise Invalid(
            "SNAPSHOT_NOT_ALLOWED",
            f"snapshot_id is allowed with fork_strategy LAST_SNAPSHOT only (got {strategy})",
            "Leave snapshot_id out, or send fork_strategy LAST_SNAPSHOT.",
        )
    found = named(parent.snapshots, snapshot_id)
    if snapshot_id in parent.names_under_way and (found is None or found.id != snapshot_id):
        raise WrongState(
            "SNAPSHOT_CREATING",
            f"The newest snapshot named {snapshot_id!r} is being taken",
            "Try again when it is AVAILABLE, or send the id of an earlier one.",
        )
    if found is None:
        alike = suggestion(snapshot_id, [one.name for one in parent.snapshots if one.name is not None])
        raise Invalid(
            "SNAPSHOT_NOT_FOUND",
            f"Service {parent.service_id} has no snapshot with the id or the name {snapshot_id[:64]!r}",
            f"{alike}A snapshot that is CREATING can be used when it is AVAILABLE.",
        )
    return RestorePoint(strategy, found)


def _unreachable(target: datetime, parent: Parent, now: datetime) -> Invalid:
    if parent.is_fork and target < parent.created_at:
        return Invalid(
            "OUTSIDE_RESTORE_WINDOW",
            f"target_time {rfc3339(target)} is before service {parent.service_id} was created,"
            f" as a fork, at {rfc3339(parent.created_at)}",
            _advice(target, parent.ancestors, now),
        )
    kept = rollable(list(parent.snapshots))
    if not kept and parent.archive is None:
        return Invalid("OUTSIDE_RESTORE_WINDOW", "The parent has no restore window yet", "Use NOW instead.")
    earliest, latest = _window(parent, kept, now)
    steps = [f"from {rfc3339(step.before)} to {rfc3339(step.after)}" for step in clock_steps(kept)]
    went_back = f" The clock of the parent was set back {', '.join(steps)}." if steps else ""
    return Invalid(
        "OUTSIDE_RESTORE_WINDOW",
        f"target_time {rfc3339(target)} is {'after' if target > latest else 'before'} the restore window of the parent,"
        f" which reaches from {rfc3339(earliest)} to {rfc3339(latest)}",
        f"Choose a time within it.{_patience(target, earliest, now)}{went_back}",
    )


def _patience(target: datetime, earliest: datetime, now: datetime) -> str:
    """Say when a restore window that has just begun will reach back as far as the target is in the past."""
    back, missing = now - target, (earliest - target).total_seconds()
    if back > _NEW_WINDOW or missing <= 0:
        return ""
    ago = math.floor((now - earliest).total_seconds())
    return f" The earliest is {ago} s ago: to go back {back.total_seconds():.0f} s, wait {math.ceil(missing)} s."


def _window(parent: Parent, kept: Sequence[Snapshot], now: datetime) -> tuple[datetime, datetime]:
    """Return the first and the last time that a fork can be of: without snapshots the archive alone has some."""
    earliest = min((snapshot.taken_at for snapshot in kept), default=now)
    held = parent.archive
    return (earliest, now) if held is None else (min(earliest, held.earliest), now if kept else held.latest)


def _advice(target: datetime, ancestors: Sequence[Ancestor], now: datetime) -> str:
    """Name the ancestor that may have the data of that time: the nearest that existed then, or the oldest known."""
    lived = [one for one in ancestors if target >= one.created_at]
    if not ancestors or (not lived and ancestors[-1].is_fork):
        return "Its ancestor at that time is unknown."
    asked = lived[0] if lived else ancestors[-1]
    named = f"its ancestor {asked.name!r} ({asked.service_id})"
    if asked.is_gone:
        return f"Data of that time belonged to {named}, which was deleted together with its restore window."
    if target < asked.created_at:
        return f"Not even {named} existed then; it was created at {rfc3339(asked.created_at)}."
    if asked.earliest is None:
        return f"Fork {named}, which has no restore window yet."
    return f"Fork {named}, whose restore window reaches from {rfc3339(asked.earliest)} to {rfc3339(now)}."
