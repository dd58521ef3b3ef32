"""Waiting for what was requested: --no-wait and --wait-timeout, and a line on standard error while a command waits."""

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from ramet.api.schemas.services import Service
from ramet.cli.ui.durations import Duration, shown_duration
from ramet.cli.ui.options import output_option
from ramet.cli.ui.output import NewSteps, plain_console, say

Result = TypeVar("Result")
Seen = Callable[[Service], None]
Wait = Callable[[str, float, Seen], Result]


@dataclass(frozen=True)
class Waiting:
    """How long a command waits (None: not at all), and when it began, by the monotonic clock."""

    seconds: float | None
    begun: float = field(default_factory=time.monotonic)

    def follow(
        self, wait: Wait[Result], subject: str, doing: str, done: str, detail: Callable[[], str] = lambda: ""
    ) -> Result | None:
        """Wait for a service or a replica set by its id, and say when it is done. Return None without a wait.

        `detail` returns how far it is, for display beside the status.
        Raises click.Abort if the user interrupts the wait; what was requested continues.
        """
        if self.seconds is None:
            return None
        with continuing(doing, f"ramet service get {subject}"), self._showing(doing, detail) as seen:
            found = wait(subject, self.seconds, seen)
        say(f"{done} after {self._elapsed()}.", "green")
        return found

    def to_end(self, begun: Result, doing: str, command: str, wait: Callable[[float, NewSteps], Result]) -> Result:
        """Return what was begun as it ended, or as it is without a wait; raises click.Abort as `follow` does."""
        if self.seconds is None:
            return begun
        with continuing(doing, command):
            return wait(self.seconds, NewSteps())

    @contextmanager
    def _showing(self, doing: str, detail: Callable[[], str]) -> Iterator[Seen]:
        """Show the status until the end of the block: on a terminal as one moving line, elsewhere each new status."""
        if not sys.stderr.isatty():
            yield self._print_each(doing, detail)
            return
        from rich.live import Live  # only here, and slow to import
        from rich.spinner import Spinner
        from rich.text import Text

        with Live(console=plain_console(stderr=True), transient=True, refresh_per_second=12) as live:

            def update(service: Service) -> None:
                text = f"{doing}: {service.status}{_beside(detail())}, {self._elapsed()}"
                live.update(Spinner("dots", Text(text)))

            live.update(Spinner("dots", Text(f"{doing} …")))
            yield update

    def _print_each(self, doing: str, detail: Callable[[], str]) -> Seen:
        last = ""

        def print_new(service: Service) -> None:
            nonlocal last
            now = f"{service.status}{_beside(detail())}"
            if now != last:
                say(f"{doing}: {now}, {self._elapsed()}")
            last = now

        return print_new

    def _elapsed(self) -> str:
        return shown_duration(time.monotonic() - self.begun)


@contextmanager
def continuing(doing: str, command: str) -> Iterator[None]:
    """Say on Ctrl-C in the block that what it waits for continues, and which command shows that: raise click.Abort."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise click.Abort(f"{doing} continues. To see its status: {command}") from interrupt


def _beside(detail: str) -> str:
    return f" ({detail})" if detail else ""


def waiting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --no-wait and --wait-timeout; the command gets them as `waiting`."""

    @functools.wraps(command)
    def with_waiting(*arguments: Any, no_wait: bool, wait_timeout: float, **named: Any) -> Any:
        return command(*arguments, waiting=Waiting(None if no_wait else wait_timeout), **named)

    timeout = click.option(
        "--wait-timeout",
        type=Duration(),
        default="30m",
        show_default=True,
        help="How long to wait, such as 90s or 30m.",
    )
    return click.option("--no-wait", is_flag=True, help="Return as soon as the request is accepted.")(
        timeout(with_waiting)
    )


def outcome_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `waiting_options`, and --output for what the command prints then."""
    return waiting_options(output_option(command))
