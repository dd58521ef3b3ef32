"""Durations as people write them, and ages as people read them."""

import re

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")


class Duration(click.ParamType[float]):
    """Seconds, written like 90s, 30m or 1h30m."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        if isinstance(value, int | float):
            return float(value)
        seconds = parse_duration(str(value))
        if seconds is None:
            self.fail(f"{value!r} is no duration; write it like 90s, 30m or 1h30m", param, ctx)
        return seconds


def parse_duration(text: str) -> float | None:
    """Return the seconds that a text names, or None when it names none."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * (0.001 if unit == "ms" else _UNITS[unit]) for number, unit in parts)


def shown_duration(seconds: float) -> str:
    """Return a duration for a person."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
