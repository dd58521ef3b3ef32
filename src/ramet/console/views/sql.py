"""Results of statements for pages and files."""

import re
from collections.abc import Sequence

from ramet.workbench.statements import Result, Value

_MOST_CHARACTERS, _MOST_LINES = 240, 5
_QUOTED = re.compile(r'[",\r\n]')
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def as_csv(result: Result) -> str:
    """Return a result as COPY … (FORMAT csv, HEADER) writes it: NULL is nothing, an empty text has quotes."""
    lines = [[column.name for column in result.columns], *result.rows]
    return "".join(f"{_line(line)}\r\n" for line in lines)


def beginning(text: str) -> str:
    """Return what a cell shows of a value until it is unfolded: all of it, unless it is long."""
    if len(text) <= _MOST_CHARACTERS and text.count("\n") < _MOST_LINES:
        return text
    return "\n".join(text[: _MOST_CHARACTERS - 40].split("\n")[: _MOST_LINES - 1])


def file_name(name: str) -> str:
    """Return the name of a file for the results of a service."""
    return f"{_NOT_IN_NAME.sub('-', name).strip('-.')[:60] or 'result'}.csv"


def _line(values: Sequence[Value | str | None]) -> str:
    return ",".join(_field(value) for value in values)


def _field(value: Value | str | None) -> str:
    if value is None:
        return ""
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if not text or _QUOTED.search(text) else text
