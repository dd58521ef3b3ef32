"""Durations and relative times as people write them, and durations as people read them."""

import re
from datetime import datetime, timedelta

import click

from ramet.model.timestamps import rfc3339

_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)", re.ASCII)


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
        return seconds


def parse_duration(text: str) -> float | None:
    """Return the seconds that a text like 90s, 1h30m or '10 minutes' names, or None if it is not a duration."""
    parts = list(_PART.finditer(text.strip()))
    if not parts or "".join(part.group() for part in parts) != text.strip():
        return None
    if any(part[2] not in _UNITS for part in parts):
        return None
    return sum(float(part[1]) * _UNITS[part[2]] for part in parts)


def absolute_time(text: str, now: datetime) -> str:
    """Return a time relative to now, like '10 minutes ago' or 10m, as RFC 3339; any other text as it is."""
    seconds = parse_duration(text.strip().removesuffix("ago"))
    try:
        return text if seconds is None else rfc3339(now - timedelta(seconds=seconds))
    except OverflowError:
        return text


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
