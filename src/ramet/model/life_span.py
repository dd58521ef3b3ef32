"""The life span of a service: when it expires, by time or by idleness, and when that is announced.

`now` is the clock of the host where a life span is granted, and where it ends the time that retention trusts: a clock
that jumps forward must not end services.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ramet.errors import Invalid
from ramet.model.timestamps import parse_timestamp, rfc3339

LEAST_SECONDS = 60
MOST_SECONDS = 10 * 366 * 86_400
_LONGEST_LEAD = timedelta(hours=1)
_LEAD_SHARE = 10


class LifeSpan(Struct, frozen=True, omit_defaults=True):
    """When a service expires, and for how long it was granted; `idle_ttl_seconds`: after so long without a session.

    `active_at` is when a session was seen last, `mark` what the server had counted then. `announced_at` is when it was
    announced that the service expires soon. `latest_at` is how far keys with a limit can extend it.
    """

    expires_at: datetime | None = None
    ttl_seconds: int | None = None
    idle_ttl_seconds: int | None = None
    active_at: datetime | None = None
    mark: str | None = None
    announced_at: datetime | None = None
    latest_at: datetime | None = None

    @property
    def idle_expires_at(self) -> datetime | None:
        """When the service expires unless a session is seen before."""
        if self.idle_ttl_seconds is None or self.active_at is None:
            return None
        return self.active_at + timedelta(seconds=self.idle_ttl_seconds)

    @property
    def ends_at(self) -> datetime | None:
        """When the service expires as things are."""
        return min((at for at in (self.expires_at, self.idle_expires_at) if at is not None), default=None)

    @property
    def is_ended_by_idleness(self) -> bool:
        """Whether the service expires because it is idle, and not because its time is over."""
        return self.ends_at is not None and self.ends_at != self.expires_at

    @property
    def lead(self) -> timedelta:
        """How long before the end that is announced: a tenth of the span, at most an hour."""
        seconds = self.idle_ttl_seconds if self.is_ended_by_idleness else self.ttl_seconds
        return min(_LONGEST_LEAD, timedelta(seconds=seconds or 0) / _LEAD_SHARE)

    @property
    def reason(self) -> str:
        """Why the service expires, in a sentence for the history."""
        if self.is_ended_by_idleness:
            return f"It expired: no client was connected for {self.idle_ttl_seconds} s."
        ends_at = self.expires_at
        return "It expired." if ends_at is None else f"It expired: its life span ended at {rfc3339(ends_at)}."

    @property
    def warning(self) -> str | None:
        """What was announced; None while nothing is."""
        ends_at = self.ends_at
        if self.announced_at is None or ends_at is None:
            return None
        # Ramet may have been down when the announcement was due: then it ends later.
        ends_at = max(ends_at, self.announced_at + self.lead)
        if self.is_ended_by_idleness:
            return f"The service is deleted at {rfc3339(ends_at)} unless a client connects or it is extended"
        return f"The service is deleted at {rfc3339(ends_at)} unless it is extended"

    @property
    def as_granted(self) -> "LifeSpan":
        """The span without what was observed of the service."""
        return LifeSpan(self.expires_at, self.ttl_seconds, self.idle_ttl_seconds, latest_at=self.latest_at)

    def of_state_before(self, now: datetime) -> "LifeSpan":
        """Return the span of the paused service that keeps what a restore or an upgrade replaces.

        A paused service is never idle: where only idleness ends the span, that one has the same time from now.
        """
        if self.idle_ttl_seconds is None or self.expires_at is not None:
            return self.as_granted
        return for_seconds(LifeSpan(latest_at=self.latest_at), self.idle_ttl_seconds, now)

    def is_due_for_announcement(self, now: datetime) -> bool:
        """Tell whether it is to be announced now."""
        return self.announced_at is None and self.ends_at is not None and now >= self.ends_at - self.lead

    def is_over(self, now: datetime) -> bool:
        """Tell whether the service has expired; never before that was announced in time."""
        if self.ends_at is None or self.announced_at is None:
            return False
        return now >= self.ends_at and now >= self.announced_at + self.lead

    def seen_active(self, now: datetime, mark: str | None) -> "LifeSpan":
        """Return the span of a service that is in use; an announced end by idleness is off."""
        announced_at = None if self.is_ended_by_idleness else self.announced_at
        return replace(self, active_at=now, mark=mark, announced_at=announced_at)


@dataclass(frozen=True)
class LifeTerms:
    """What a request says of a life span: UNSET leaves a part as it is, None removes it.

    `expires_at` is the caller's own text.
    """

    ttl_seconds: int | UnsetType | None = UNSET
    expires_at: str | UnsetType | None = UNSET
    idle_ttl_seconds: int | UnsetType | None = UNSET


UNLIMITED = LifeTerms()


def granted(terms: LifeTerms, now: datetime, before: LifeSpan | None = None) -> LifeSpan | None:
    """Return the life span that the terms make of an earlier one; None when the service does not expire.

    Raises Invalid for a duration that is too short or too long, for a time that is past or more than ten years ahead,
    and for both together.
    """
    span = before or LifeSpan()
    if isinstance(terms.ttl_seconds, int) and isinstance(terms.expires_at, str):
        raise Invalid("CONTRADICTION", "ttl_seconds and expires_at cannot be sent together", "Send one of the two.")
    if isinstance(terms.ttl_seconds, int):
        span = for_seconds(span, check_seconds("ttl_seconds", terms.ttl_seconds), now)
    elif isinstance(terms.expires_at, str):
        expires_at = _check_time(parse_timestamp("expires_at", terms.expires_at), now)
        span = replace(span, expires_at=expires_at, ttl_seconds=max(1, round((expires_at - now).total_seconds())))
    elif terms.ttl_seconds is None or terms.expires_at is None:
        span = replace(span, expires_at=None, ttl_seconds=None)
    if isinstance(terms.idle_ttl_seconds, int):
        idle = check_seconds("idle_ttl_seconds", terms.idle_ttl_seconds)
        span = replace(span, idle_ttl_seconds=idle, active_at=now, mark=None)
    elif terms.idle_ttl_seconds is None:
        span = replace(span, idle_ttl_seconds=None, active_at=None, mark=None)
    span = replace(span, announced_at=None)
    return None if span.expires_at is None and span.idle_ttl_seconds is None else span


def renewed(span: LifeSpan, now: datetime) -> LifeSpan:
    """Return a span that begins again now: for as long as it was granted for, and without idle time."""
    if span.ttl_seconds is not None:
        span = for_seconds(span, span.ttl_seconds, now)
    return replace(span, active_at=None if span.idle_ttl_seconds is None else now, announced_at=None)


def for_seconds(span: LifeSpan, seconds: int, now: datetime) -> LifeSpan:
    """Return a span with an end so many seconds from now."""
    return replace(span, expires_at=now + timedelta(seconds=seconds), ttl_seconds=seconds)


def check_seconds(name: str, seconds: int, least: int = LEAST_SECONDS, most: int = MOST_SECONDS) -> int:
    """Return a duration. Raises Invalid when it is too short or too long."""
    if not least <= seconds <= most:
        raise Invalid(f"INVALID_{name.upper()}", f"{name} must be between {least} and {most} (got {seconds})")
    return seconds


def _check_time(expires_at: datetime, now: datetime) -> datetime:
    if not now < expires_at <= now + timedelta(seconds=MOST_SECONDS):
        raise Invalid(
            "INVALID_EXPIRES_AT",
            f"expires_at must be in the future, and at most ten years ahead (got {rfc3339(expires_at)})",
            f"Now is {rfc3339(now)}.",
        )
    return expires_at
