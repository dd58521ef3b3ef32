"""Projects, and what they may have."""

from dataclasses import dataclass
from datetime import datetime

from ramet.errors import Invalid
from ramet.model.life_span import LifeSpan, check_seconds, for_seconds
from ramet.model.quota import Quota, check_quota
from ramet.model.sleep import check_sleep_after


class ProjectLimits(Quota, frozen=True, omit_defaults=True):
    """What a project may have; None: no limit.

    A fork without a life span gets `fork_ttl_seconds`, and none lives longer than `max_fork_ttl_seconds` from when it
    was made or extended. A fork falls asleep after `fork_sleep_after_seconds` unless another time is requested.
    """

    fork_ttl_seconds: int | None = None
    max_fork_ttl_seconds: int | None = None
    fork_sleep_after_seconds: int | None = None


NO_LIMITS = ProjectLimits()


@dataclass(frozen=True)
class Project:
    """A project holds services; its keys open it and nothing else."""

    id: str
    name: str
    created_at: datetime
    limits: ProjectLimits = NO_LIMITS


def check_limits(limits: ProjectLimits) -> ProjectLimits:
    """Return limits. Raises Invalid when one is out of range, or when two contradict each other."""
    for name in ("fork_ttl_seconds", "max_fork_ttl_seconds"):
        if (seconds := getattr(limits, name)) is not None:
            check_seconds(name, seconds)
    check_quota(limits)
    check_sleep_after(limits.fork_sleep_after_seconds, "fork_sleep_after_seconds")
    default, most = limits.fork_ttl_seconds, limits.max_fork_ttl_seconds
    if default is not None and most is not None and default > most:
        raise Invalid("INVALID_FIELD", f"fork_ttl_seconds must be at most max_fork_ttl_seconds, {most} (got {default})")
    return limits


def limited(limits: ProjectLimits, span: LifeSpan | None, now: datetime) -> LifeSpan | None:
    """Return the life span of a fork of the project: the default where it has no end. Raises Invalid over the maximum.

    Idleness does not count as an end: a fork that is always in use has none.
    """
    most = limits.max_fork_ttl_seconds
    if span is None or span.expires_at is None:
        seconds = limits.fork_ttl_seconds or most
        return span if seconds is None else for_seconds(span or LifeSpan(), seconds, now)
    if most is not None and (span.expires_at - now).total_seconds() > most:
        raise Invalid(
            "LIFE_SPAN_TOO_LONG",
            f"A fork in this project may live {most} s (max_fork_ttl_seconds), and this one would live"
            f" {round((span.expires_at - now).total_seconds())} s",
            "Send a shorter life span, and extend the fork later.",
        )
    return span
