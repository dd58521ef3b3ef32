"""Timestamps as clients write them: RFC 3339 with an offset, cut to microseconds, which is what PostgreSQL keeps."""

import re
from datetime import UTC, datetime, timedelta

from ramet.errors import Invalid

_RFC3339 = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_NO_SUCH_TIME = "No such day, hour or offset: years are 0001 to 9999, and offsets at most 23:59."


def parse_timestamp(field: str, text: str) -> datetime:
    """Return the timestamp in UTC that a field's text names. Raises Invalid with the code INVALID_<FIELD>."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise _unreadable(field, text, "Use RFC 3339 with an offset, for example 2026-01-15T10:30:00.25+02:00.")
    day, clock, fraction, offset = found.groups()
    micros = (fraction or "")[:6].ljust(6, "0")
    offset = "+00:00" if offset in "Zz" else offset
    try:
        return datetime.fromisoformat(f"{day}T{clock}.{micros}{offset}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _unreadable(field, text, _NO_SUCH_TIME) from error


def rfc3339(timestamp: datetime) -> str:
    """Return a timestamp as RFC 3339 in UTC with microseconds."""
    return timestamp.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def time_left(since: datetime, pause: timedelta, now: datetime) -> timedelta:
    """Return how much is left of a pause; nothing when it began later than `now`, because the clock was set back."""
    left = since + pause - now
    return left if timedelta(0) < left <= pause else timedelta(0)


def _unreadable(field: str, text: str, remedy: str) -> Invalid:
    return Invalid(f"INVALID_{field.upper()}", f"{field} {text[:64]!r} cannot be read as a timestamp", remedy)
