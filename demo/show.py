"""What the demo looks like: a line for each act, checks below, and the services as a tree."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ramet.api.schemas.services import Service
from ramet.cli.ui.durations import shown_duration
from ramet.cli.ui.output import status_text
from ramet.cli.ui.service_views import lineage, shown_endpoint

_MIB = 1024**2
_WIDTH = 34
_LEAST_WIDTH = 120


@dataclass
class Act:
    """One line while it is being lived through; `note` and `seconds` may be set on the way."""

    note: str = ""
    seconds: float | None = None


def _console() -> Console:
    """Return a console on which the table of services is never cut: a pipe has no width."""
    console = Console(highlight=False)
    return console if console.width >= _LEAST_WIDTH else Console(highlight=False, width=_LEAST_WIDTH)


@dataclass
class Show:
    """Prints to standard output; what moves, moves on a terminal only."""

    console: Console = field(default_factory=_console)

    def title(self, line: str) -> None:
        """Open the show."""
        self.console.print(Panel(Text(line, justify="center"), box=box.ROUNDED, style="bold green", width=76))

    def heading(self, text: str) -> None:
        """Print the name of a part."""
        self.console.print(f"\n[bold]{text}[/bold]")

    @contextmanager
    def act(self, text: str) -> Iterator[Act]:
        """Show what is being done, then how long it took."""
        act = Act()
        begun = time.monotonic()
        try:
            with self.console.status(f"{text} …", spinner="dots"):
                yield act
        except BaseException:
            self.console.print(f"  [red]✗[/red] {text}")
            raise
        seconds = time.monotonic() - begun if act.seconds is None else act.seconds
        line = Text("  ✓ ", style="green").append(f"{text:<{_WIDTH}}", style="not green default")
        line.append(f"{shown_duration(seconds):>9}", style="bold cyan").append(f"   {act.note}", style="dim")
        self.console.print(line, soft_wrap=True)

    def passed(self, text: str) -> None:
        """Print a check that holds."""
        self.console.print(Text("      ✓ ", style="green").append(text, style="not green default"), soft_wrap=True)

    def failed(self, text: str) -> None:
        """Print a check that does not hold."""
        self.console.print(Text("      ✗ ", style="bold red").append(text), soft_wrap=True)

    def say(self, text: str = "", style: str = "") -> None:
        """Print a line."""
        self.console.print(Text(text, style=style), soft_wrap=True)

    def services(
        self, services: Sequence[Service], space_bytes: Mapping[str, int | None], ready: Mapping[str, float]
    ) -> None:
        """Print the services: who was forked from whom, as of when, and what each costs."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for name, side in (
            ("service", "left"),
            ("forked as of", "left"),
            ("status", "left"),
            ("endpoint", "left"),
            ("own space", "right"),
            ("request to READY", "right"),
        ):
            table.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
        for branch, service in lineage(services):
            table.add_row(
                Text(branch, style="dim").append(service.name, style="not dim bold"),
                _origin(service),
                status_text(service.status),
                shown_endpoint(service),
                _space(space_bytes.get(service.service_id)),
                Text(shown_duration(ready[service.service_id]), style="bold cyan"),
            )
        self.console.print(table)


def _origin(service: Service) -> str:
    metadata = service.metadata
    if service.forked_from is None:
        return "–"
    match metadata.fork_strategy:
        case "PITR":
            return f"PITR {_clock(metadata.target_time)}"
        case "LAST_SNAPSHOT":
            return f"snapshot {_clock(metadata.data_time)}"
        case _:
            return "now"


def _clock(instant: object) -> str:
    """Return the time of the day in UTC of a time or its text."""
    return str(instant).replace(" ", "T").partition("T")[2].partition("+")[0].rstrip("Z")[:12]


def _space(size_bytes: int | None) -> str:
    return "–" if size_bytes is None else f"{size_bytes / _MIB:,.1f} MB"
