"""`ramet service logs`: what a service's server wrote."""

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from ramet.api.schemas.logs import ServiceLogEntry
from ramet.cli.ui.durations import absolute_time
from ramet.cli.ui.options import credentials_option, find_service, open_client, output_option, service_argument
from ramet.cli.ui.output import print_data
from ramet.client import Client
from ramet.model.fork import shown
from ramet.model.moments import parse_moment

_FOLLOW_SECONDS = 1.0
_COLOURS = {"WARNING": "yellow", "ERROR": "red", "FATAL": "red", "PANIC": "red"}


@click.command("logs")
@service_argument
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written, until interrupted.")
@click.option(
    "-n", "--lines", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many at most."
)
@click.option("--since", help="From this time on: RFC 3339, or relative like 30m or '30 minutes ago'.")
@click.option("--until", help="Up to this time: RFC 3339, or relative like 30m or '30 minutes ago'.")
@click.option("--search", multiple=True, help="Text to be in the message; may be given again.")
@click.option("--severity", multiple=True, help="Such as WARNING or ERROR; may be given again.")
@output_option
@credentials_option
def show_logs(
    service: str,
    follow: bool,
    lines: int,
    since: str | None,
    until: str | None,
    search: tuple[str, ...],
    severity: tuple[str, ...],
    output: str,
    credentials_file: Path | None,
) -> None:
    """Show the log of a service, oldest line first.

    \b
    Examples:
      ramet service logs shop -f
      ramet service logs shop --since 1h --severity ERROR --severity FATAL
      ramet service logs shop --search deadlock -o json
    """
    if follow and (until is not None or output != "table"):
        raise click.UsageError("--follow goes with neither --until nor --output.")
    query: dict[str, str | tuple[str, ...]] = {"search": search, "severities": severity}
    query |= {
        name: shown(_moment(name, text)) for name, text in (("since", since), ("until", until)) if text is not None
    }
    with open_client(credentials_file) as client:
        service_id = find_service(client, service).service_id
        entries = list(_newest(client, service_id, query, lines))[::-1]
        if output != "table":
            print_data(entries, output)
            return
        _print(entries)
        if follow:
            _follow(client, service_id, query, entries)


def _moment(name: str, text: str) -> datetime:
    return parse_moment(name, absolute_time(text, datetime.now(UTC)))


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
        entries = list(_newest(client, service_id, {**query, "since": shown(last)}, 100_000))[::-1]
        # Several entries may carry the last moment, and more of them may have come.
        seen = [entry for entry in printed if entry.timestamp == last]
        fresh = [entry for entry in entries if entry not in seen]
        _print(fresh)
        if fresh:
            printed, last = entries, fresh[-1].timestamp


def _print(entries: list[ServiceLogEntry]) -> None:
    for entry in entries:
        severity = click.style(f"{entry.severity:7}", fg=_COLOURS.get(entry.severity))
        click.echo(f"{shown(entry.timestamp)}  {severity}  {entry.message}")
    sys.stdout.flush()
