"""Waiting for what was asked for: --no-wait and --wait-timeout, and how the wait is shown."""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from ramet.api.schemas.services import Service
from ramet.cli.ui.durations import Duration
from ramet.cli.ui.output import say
from ramet.cli.ui.progress import showing_progress

Result = TypeVar("Result")
Wait = Callable[[str, float, Callable[[Service], None]], Result]


@dataclass(frozen=True)
class Patience:
    """How long a command waits, None: not at all; the time that it shows runs from its own beginning."""

    seconds: float | None
    begun: float = field(default_factory=time.monotonic)

    def follow(self, wait: Wait[Result], subject: str, doing: str, done: str) -> Result | None:
        """Wait for a service or a set by its id, with progress, and say that it is done; None without a wait.

        Raises click.Abort where the user interrupts the wait: what was asked for continues.
        """
        if self.seconds is None:
            return None
        try:
            with showing_progress(doing, self.begun) as progress:
                found = wait(subject, self.seconds, progress.seen)
        except KeyboardInterrupt as interrupt:
            raise click.Abort(f"{doing} continues. To see its status: ramet service get {subject}") from interrupt
        say(f"{done} after {progress.elapsed()}.", "green")
        return found


def waiting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --no-wait and --wait-timeout; the command gets them as `patience`."""

    @functools.wraps(command)
    def with_patience(*arguments: Any, no_wait: bool, wait_timeout: float, **named: Any) -> Any:
        return command(*arguments, patience=Patience(None if no_wait else wait_timeout), **named)

    timeout = click.option(
        "--wait-timeout", type=Duration(), default="30m", show_default=True, help="How long to wait, like 90s or 30m."
    )
    return click.option("--no-wait", is_flag=True, help="Return as soon as the request is accepted.")(
        timeout(with_patience)
    )
