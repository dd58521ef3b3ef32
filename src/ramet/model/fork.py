"""What a fork request asks for: a strategy, and for PITR a target. `restore_point` chooses what that means."""

from datetime import UTC, datetime
from enum import StrEnum

from ramet.errors import Invalid
from ramet.model.moments import parse_moment


class ForkStrategy(StrEnum):
    """Which data state a fork holds."""

    LAST_SNAPSHOT = "LAST_SNAPSHOT"
    NOW = "NOW"
    PITR = "PITR"


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


def shown(moment: datetime) -> str:
    """Return a moment as RFC 3339 in UTC with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
