"""What a fork request asks for: a strategy, and for PITR a target. `restore_point` chooses what that means."""

from datetime import datetime
from enum import StrEnum

from ramet.errors import Invalid
from ramet.model.timestamps import parse_timestamp, rfc3339

MOST_AT_ONCE = 100


class ForkStrategy(StrEnum):
    """Which data state a fork holds."""

    LAST_SNAPSHOT = "LAST_SNAPSHOT"
    NOW = "NOW"
    PITR = "PITR"


def parse_target_time(text: str) -> datetime:
    """Return the time that a target names; see `parse_timestamp`."""
    return parse_timestamp("target_time", text)


def check_target(strategy: ForkStrategy, target_time: str | None, now: datetime) -> datetime | None:
    """Return the target of a PITR request, or None for the other strategies.

    Raises Invalid when strategy and target_time do not go together, or the target is in the future.
    """
    if strategy is not ForkStrategy.PITR:
        if target_time is not None:
            raise Invalid(
                "TARGET_TIME_NOT_ALLOWED",
                f"target_time {target_time[:64]!r} is allowed with fork_strategy PITR only (got {strategy})",
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
            f"target_time {target_time[:64]!r} is in the future; the server's time is {rfc3339(now)}",
            "Send a time that has passed, or use fork_strategy NOW.",
        )
    return target
