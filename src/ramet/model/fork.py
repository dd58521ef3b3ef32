"""What a fork request means: the strategy, the target, and the restore point that they resolve to."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from ramet.errors import Invalid
from ramet.model.moments import parse_moment
from ramet.model.snapshot import Snapshot, base_for, clock_steps, newest, rollable


class ForkStrategy(StrEnum):
    """Which data state a fork holds."""

    LAST_SNAPSHOT = "LAST_SNAPSHOT"
    NOW = "NOW"
    PITR = "PITR"


@dataclass(frozen=True)
class RestorePoint:
    """The data state that a fork is to hold: a base snapshot, a target time, both, or neither (now).

    `awaits_snapshot` says that the base is a snapshot that is still to be taken.
    """

    strategy: ForkStrategy
    base: Snapshot | None = None
    target: datetime | None = None
    awaits_snapshot: bool = False


def parse_target_time(text: str) -> datetime:
    """Return the moment that a target names; see `parse_moment`."""
    return parse_moment("target_time", text)


def check_target(strategy: ForkStrategy, target_time: str | None, now: datetime) -> datetime | None:
    """Return the target of a PITR request, or None for the other strategies.

    Raises Invalid when strategy and target_time do not belong together, or the target lies in the future.
    """
    if strategy is not ForkStrategy.PITR:
        if target_time is not None:
            raise Invalid(
                "TARGET_TIME_NOT_ALLOWED",
                f"target_time {target_time[:64]!r} goes with fork_strategy PITR only, not with {strategy}",
                "Leave target_time out, or send fork_strategy PITR.",
            )
        return None
    if target_time is None:
        raise Invalid(
            "TARGET_TIME_REQUIRED",
            "fork_strategy PITR needs target_time, and it is missing",
            "Send target_time as RFC 3339 with an offset, for example 2026-01-15T10:30:00Z.",
        )
    target = parse_target_time(target_time)
    if target > now:
        raise Invalid(
            "TARGET_TIME_IN_FUTURE",
            f"target_time {target_time[:64]!r} lies in the future; the server's time is {shown(now)}",
            "Send a moment that has passed, or use fork_strategy NOW.",
        )
    return target


def resolve(strategy: ForkStrategy, target: datetime | None, snapshots: list[Snapshot], now: datetime) -> RestorePoint:
    """Return the restore point for a checked request. Raises Invalid when no snapshot can serve it.

    LAST_SNAPSHOT has no base yet while the parent's first snapshot is still being taken.
    """
    if strategy is ForkStrategy.NOW:
        return RestorePoint(strategy)
    if strategy is ForkStrategy.LAST_SNAPSHOT:
        return RestorePoint(strategy, newest(snapshots))
    if target is None:
        raise AssertionError("BUG: a checked PITR request has a target")
    base = base_for(snapshots, target)
    if base is None:
        raise before_window(target, snapshots, now)
    return RestorePoint(strategy, base, target)


def chosen_snapshot(point: RestorePoint, snapshot_id: str, snapshots: list[Snapshot]) -> RestorePoint:
    """Return the restore point of a LAST_SNAPSHOT request that names its snapshot. Raises Invalid."""
    if point.strategy is not ForkStrategy.LAST_SNAPSHOT:
        raise Invalid(
            "SNAPSHOT_NOT_ALLOWED",
            f"snapshot_id goes with fork_strategy LAST_SNAPSHOT only, not with {point.strategy}",
            "Leave snapshot_id out, or send fork_strategy LAST_SNAPSHOT.",
        )
    found = next((snapshot for snapshot in snapshots if snapshot.id == snapshot_id), None)
    if found is None:
        raise Invalid(
            "SNAPSHOT_NOT_FOUND",
            f"The parent has no snapshot {snapshot_id[:64]!r}",
            "Its snapshots are listed by GET .../snapshots; without snapshot_id the newest is taken.",
        )
    return RestorePoint(point.strategy, found)


def before_window(target: datetime, snapshots: list[Snapshot], now: datetime) -> Invalid:
    """Return the error for a target before the restore window, with the window in it."""
    earliest = min((snapshot.taken_at for snapshot in rollable(snapshots)), default=None)
    if earliest is None:
        return Invalid("OUTSIDE_RESTORE_WINDOW", "The parent has no restore window yet", "Use NOW instead.")
    steps = [f"from {shown(step.before)} to {shown(step.after)}" for step in clock_steps(rollable(snapshots))]
    went_back = f" The clock of the parent went back {', '.join(steps)}." if steps else ""
    return Invalid(
        "OUTSIDE_RESTORE_WINDOW",
        f"target_time {shown(target)} lies before the restore window of the parent,"
        f" which reaches from {shown(earliest)} to {shown(now)}",
        f"Choose a moment within it.{went_back}",
    )


def shown(moment: datetime) -> str:
    """Return a moment as RFC 3339 in UTC with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
