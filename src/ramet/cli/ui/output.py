"""Standard output: tables for people, JSON or YAML for programs. Everything else goes to standard error.

rich is imported when something is drawn with it: programs that read JSON start in half the time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import UnsupportedOperation
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

import msgspec

from ramet.cli.ui.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_PIPE_WIDTH = 10_000
_COLOURS = {"READY": "green", "PAUSED": "cyan", "UNSTABLE": "red", "DELETING": "red"}


def plain_console(*, stderr: bool = False, soft_wrap: bool = False, width: int | None = None) -> Console:
    """Return a console that prints text as it is: no name or message is read as markup or as an emoji."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False, stderr=stderr, soft_wrap=soft_wrap, width=width)


def say(message: str, style: str = "") -> None:
    """Print a message for people to standard error. That nobody receives it does not end the command."""
    try:
        sys.stderr.write(f"{_styled(printable(message), style)}\n")
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Lead a stream that cannot be written to nowhere: what is left in it is flushed at exit once more."""
    with suppress(UnsupportedOperation), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def print_result(value: object, output: str, print_table: Callable[[], object]) -> None:
    """Print a result in the format that the user wants; `print_table` prints it for people."""
    if output == "table":
        print_table()
    else:
        print_data(value, output)


def print_data(value: object, output: str, *, more_follow: bool = False) -> None:
    """Print a value as JSON or YAML, `more_follow` as one of several YAML documents."""
    plain, is_utf8 = msgspec.to_builtins(value), sys.stdout.encoding.lower() == "utf-8"
    if output == "yaml":
        import yaml  # rarely wanted, and slow to import

        yaml.safe_dump(plain, sys.stdout, sort_keys=False, allow_unicode=is_utf8, explicit_start=more_follow)
    else:
        import json  # what prints tables does not need it

        sys.stdout.write(json.dumps(plain, indent=2, ensure_ascii=not is_utf8) + "\n")


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print a table. A narrow terminal gets the most important columns, and standard error names the others."""
    from ramet.cli.ui.tables import make_table

    room = plain_console().width if sys.stdout.isatty() else None
    table, layout = make_table(columns, rows, room)
    _print(table)
    if layout.left_out:
        say(f"Not shown in {room} columns: {', '.join(layout.left_out)}. '-o json' shows all.", "dim")


def print_pairs(pairs: Sequence[tuple[str, str | Text]]) -> None:
    """Print names and values below each other."""
    from rich.table import Table

    from ramet.cli.ui.tables import GAP, plain

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, GAP, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(plain(name), plain(value))
    _print(table)


def status_text(status: str) -> Text:
    """Return a status in its colour."""
    from rich.text import Text

    return Text(status, style=_COLOURS.get(status, "yellow"))


def _styled(message: str, style: str) -> str:
    """Return a message as standard error shows it."""
    if not sys.stderr.isatty() and "FORCE_COLOR" not in os.environ:
        return message
    from rich.text import Text

    console = plain_console(stderr=True, soft_wrap=True)
    with console.capture() as capture:
        console.print(Text(message, style=style), end="")
    return capture.get()


def _print(table: Table) -> None:
    """Print a table as wide as the terminal; into a pipe, as wide as its content."""
    console = plain_console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    with console.capture() as capture:
        console.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


class HasStep(Protocol):
    """What has a step that it is at."""

    @property
    def step(self) -> str | None: ...


@dataclass
class NewSteps:
    """Says each new step of what is awaited on standard error."""

    last: str | None = None

    def __call__(self, found: HasStep) -> None:
        if found.step is not None and found.step != self.last:
            say(f"{found.step} …")
            self.last = found.step
