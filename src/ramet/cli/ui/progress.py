"""One line on standard error while a command waits: what the service is doing, and for how long."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from ramet.api.schemas.services import Service
from ramet.cli.ui.durations import shown_duration
from ramet.cli.ui.output import plain_console, say


class Progress:
    """What is shown of a wait. On a terminal the line moves; elsewhere each new status is a line."""

    def __init__(self, live: Live | None, begun: float, goal: str) -> None:
        self._live = live
        self._begun = begun
        self._goal = goal
        self._last = ""

    def seen(self, service: Service) -> None:
        """Show the latest look at a service."""
        line = f"{self._goal}: {service.status}, {self.elapsed()}"
        if self._live is not None:
            self._live.update(Spinner("dots", Text(line)))
        elif service.status != self._last:
            say(line)
        self._last = service.status

    def elapsed(self) -> str:
        """Return how long it has taken."""
        return shown_duration(time.monotonic() - self._begun)


@contextmanager
def showing_progress(goal: str, begun: float) -> Iterator[Progress]:
    """Show progress towards a goal until the end of the block; `begun` is by the monotonic clock."""
    console = plain_console(stderr=True)
    if not console.is_terminal:
        yield Progress(None, begun, goal)
        return
    with Live(console=console, transient=True, refresh_per_second=12) as live:
        yield Progress(live, begun, goal)
