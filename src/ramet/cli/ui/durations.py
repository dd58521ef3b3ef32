"""Durations and relative times as people write them, and durations and sizes as people read them."""

import re
from datetime import datetime, time, timedelta

import click

from ramet.model.timestamps import rfc3339

_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_LONGEST_DAYS = 365_000  # so long before or after now there are dates
_TIME_OF_DAY = r"(?a)\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
_DATE_AND_TIME = r"(?a)\d{4}-\d\d-\d\d[ T]\d\d:\d\d"
_PART = r"(?a)\s*(\d+(?:\.\d+)?)\s*([a-z]+)"


class Duration(click.ParamType[float]):
    """Seconds, written as 90s, 30m or 1h30m."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        if isinstance(value, int | float):
            return float(value)
        seconds = parse_duration(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a duration such as 90s, 30m or 1h30m", param, ctx)
        if seconds > _LONGEST_DAYS * _UNITS["d"]:
            self.fail(f"{value!r} is longer than {_LONGEST_DAYS} days", param, ctx)
        return seconds


def parse_duration(text: str) -> float | None:
    """Return the seconds that a text like 90s, 1h30m or '10 minutes' names, or None if it is not a duration."""
    parts = list(re.finditer(_PART, text.strip()))
    if not parts or "".join(part.group() for part in parts) != text.strip():
        return None
    if any(part[2] not in _UNITS for part in parts):
        return None
    return sum(float(part[1]) * _UNITS[part[2]] for part in parts)


def absolute_time(text: str, now: datetime) -> str:
    """Return a time that a person wrote as RFC 3339; any other text as it is.

    A relative time such as '10 minutes ago' or 10m is before now. A time without a zone, such as '2026-11-22 12:25', is
    in the time zone of this host; 14:03 is the last time that its clocks showed that.
    """
    try:
        seconds = parse_duration(text.strip().removesuffix("ago"))
        found = _local(text.strip(), now) if seconds is None else now - timedelta(seconds=seconds)
        return text if found is None else rfc3339(found)
    except (OverflowError, ValueError):  # there are no such dates
        return text


def _local(text: str, now: datetime) -> datetime | None:
    """Return a time without a zone in that of this host, or None for any other text."""
    try:
        if re.fullmatch(_TIME_OF_DAY, text):
            last = datetime.combine(now.astimezone().date(), time.fromisoformat(text)).astimezone()
            return last if last <= now else (last.replace(tzinfo=None) - timedelta(days=1)).astimezone()
        found = datetime.fromisoformat(text) if re.match(_DATE_AND_TIME, text) else None
    except ValueError:
        return None
    return found.astimezone() if found is not None and found.tzinfo is None else None


def local_time(time: datetime | None) -> str:
    """Return a time for a person, in the time zone of this host; "" for None."""
    return "" if time is None else time.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def shown_duration(seconds: float) -> str:
    """Return a duration for a person."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def shown_mib(size_bytes: float) -> str:
    """Return a size for a person."""
    return f"{size_bytes / 1024**2:.1f} MiB"
