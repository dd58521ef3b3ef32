"""`ramet service logs`: the server log of a service."""

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import click

from ramet.api.schemas.logs import ServiceLogEntry
from ramet.api.schemas.services import Service
from ramet.cli.ui.durations import absolute_time
from ramet.cli.ui.options import named_output, output_option, service_command
from ramet.cli.ui.output import print_result
from ramet.cli.ui.printable import printable
from ramet.client import Client
from ramet.model.timestamps import parse_timestamp, rfc3339

_FOLLOW_SECONDS = 1.0
_COLOURS = {"WARNING": "yellow", "ERROR": "red", "FATAL": "red", "PANIC": "red"}


@service_command("logs")
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they are written, until interrupted.")
@click.option(
    "-n", "--lines", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Largest number of lines."
)
@click.option("--since", help="Only lines from this time on: RFC 3339, or relative such as 30m or '30 minutes ago'.")
@click.option("--until", help="Only lines up to this time: RFC 3339, or relative such as 30m or '30 minutes ago'.")
@click.option("--search", multiple=True, help="Only lines that contain this text; may be repeated.")
@click.option(
    "--severity", multiple=True, help="Only lines of this severity, such as WARNING or ERROR; may be repeated."
)
@output_option
def show_logs(
    client: Client,
    service: Service,
    follow: bool,
    lines: int,
    since: str | None,
    until: str | None,
    search: tuple[str, ...],
    severity: tuple[str, ...],
    output: str,
) -> None:
    """Show the server log of a service, oldest line first.

    \b
    Examples:
      ramet service logs shop -f
      ramet service logs shop --since 1h --severity ERROR --severity FATAL
      ramet service logs shop --search deadlock -o json
    """
    if follow:
        output = named_output(output)
    if follow and (until is not None or output != "table"):
        raise click.UsageError("--follow cannot be used together with --until or --output.")
    query: dict[str, str | tuple[str, ...]] = {"search": search, "severities": severity}
    query |= {
        name: rfc3339(parse_timestamp(name, absolute_time(text, datetime.now(UTC))))
        for name, text in (("since", since), ("until", until))
        if text is not None
    }
    entries = list(_newest(client, service.service_id, query, lines))[::-1]
    print_result(entries, output, lambda: _print(entries))
    if follow:
        _follow(client, service.service_id, query, entries)


def _newest(
    client: Client, service_id: str, query: dict[str, str | tuple[str, ...]], limit: int
) -> Iterator[ServiceLogEntry]:
    """Yield up to `limit` entries, newest first, page after page."""
    page = client.read_logs(service_id, **query)
    while True:
        yield from page.entries[:limit]
        limit -= len(page.entries)
        if limit <= 0 or not isinstance(page.last_cursor, str):
            return
        page = client.read_logs(service_id, **query, cursor=page.last_cursor)


def _follow(
    client: Client, service_id: str, query: dict[str, str | tuple[str, ...]], printed: list[ServiceLogEntry]
) -> None:
    last = printed[-1].timestamp if printed else datetime.now(UTC)
    while True:
        time.sleep(_FOLLOW_SECONDS)
        entries = list(_newest(client, service_id, {**query, "since": rfc3339(last)}, 100_000))[::-1]
        # Several entries may have the latest timestamp, and more of them may have been written since.
        seen = [entry for entry in printed if entry.timestamp == last]
        fresh = [entry for entry in entries if entry not in seen]
        _print(fresh)
        if fresh:
            printed, last = entries, fresh[-1].timestamp


def _print(entries: list[ServiceLogEntry]) -> None:
    for entry in entries:
        severity = click.style(f"{entry.severity:7}", fg=_COLOURS.get(entry.severity))
        click.echo(f"{rfc3339(entry.timestamp)}  {severity}  {printable(entry.message)}")
    sys.stdout.flush()
