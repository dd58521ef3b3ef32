"""When the source of a standby is copied again, because the standby cannot catch up any more: five times at most."""

from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from ramet.model.timestamps import rfc3339

# Before each attempt: the first one waits until the reason is sure to stay.
PAUSES = (
    timedelta(seconds=10),
    timedelta(minutes=1),
    timedelta(minutes=10),
    timedelta(hours=1),
    timedelta(hours=6),
)
_RECOVERED_AFTER = timedelta(hours=1)


class SourceCopies(Struct, frozen=True, gc=False, kw_only=True):
    """The attempts to copy a source again. `since` is when that was first found necessary, or the last attempt ended.

    `failure` says why the last attempt failed.
    """

    since: datetime
    attempts: int = 0
    failure: str | None = None


def observed(known: SourceCopies | None, *, is_needed: bool, now: datetime) -> SourceCopies | None:
    """Return what to remember after an observation; attempts are forgotten when none was needed for an hour."""
    if is_needed:
        return known or SourceCopies(since=now)
    if known is None or known.attempts == 0 or now - known.since >= _RECOVERED_AFTER:
        return None
    return known


def due_at(copies: SourceCopies) -> datetime | None:
    """Return when the next attempt is due; None when there is none any more."""
    return copies.since + PAUSES[copies.attempts] if copies.attempts < len(PAUSES) else None


def is_due(copies: SourceCopies, now: datetime) -> bool:
    """Tell whether the next attempt begins now."""
    due = due_at(copies)
    return due is not None and due <= now


def begun(copies: SourceCopies) -> SourceCopies:
    """Count an attempt that begins."""
    return replace(copies, attempts=copies.attempts + 1, failure=None)


def ended(copies: SourceCopies, now: datetime, failure: str | None = None) -> SourceCopies:
    """Return what to remember of an attempt that has ended."""
    return replace(copies, since=now, failure=failure)


def in_words(copies: SourceCopies) -> str:
    """Say what has failed, and what happens next."""
    most, due = len(PAUSES), due_at(copies)
    failed = ""
    if copies.failure is not None:
        failed = f"Attempt {copies.attempts} to copy it again failed: {copies.failure.rstrip('.')}. "
    if due is None:
        return (
            f"{failed}It is not copied again by itself after {most} attempts."
            " Pause and resume the service to try again, or delete it and follow again."
        )
    return f"{failed}Attempt {copies.attempts + 1} of {most} to copy it again begins after {rfc3339(due)}."


def under_way(copies: SourceCopies) -> str:
    """Say that an attempt runs."""
    return f"It is being copied again, attempt {copies.attempts} of {len(PAUSES)}: the operation shows how far that is."
