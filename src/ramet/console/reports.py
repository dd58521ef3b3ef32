"""A fork's report as lines to read: whatever it holds, without knowing each figure."""

from collections.abc import Iterable, Mapping
from typing import Any

from ramet.console.texts import bytes_text, seconds_text

Lines = list[tuple[str, str]]


def report_lines(report: Mapping[str, Any]) -> list[tuple[str, Lines]]:
    """Return (title, lines) of each part of a report that says something."""
    loose = {name: value for name, value in report.items() if not isinstance(value, Mapping)}
    parts = [*((name, value) for name, value in report.items() if isinstance(value, Mapping)), ("more", loose)]
    return [(_title(name), lines) for name, part in parts if (lines := list(_lines(part)))]


def _lines(part: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in part.items():
        if value not in (None, "", [], {}):
            yield _title(name.removesuffix("_bytes").removesuffix("_seconds")), _text(name, value)


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and name.endswith("_bytes"):
        return bytes_text(value)
    if isinstance(value, int | float) and name.endswith("_seconds"):
        return seconds_text(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key.replace('_', ' ')}: {_text(str(key), inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text("", inner) for inner in value)
    return str(value)


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()
