"""`ramet db`: top, activity."""

from typing import Any

import click

from ramet.api.schemas.insight import Activity, TopStatements
from ramet.api.schemas.services import Service
from ramet.cli.ui.options import output_option, service_command
from ramet.cli.ui.output import print_result, print_rows, say
from ramet.client import Client

_WIDTH = 60
_limit = click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="How many to show.")


@service_command("top")
@_limit
@output_option
def show_top(client: Client, service: Service, limit: int, output: str) -> None:
    """Show the statements of a service that took most time in total, since their counters were reset.

    pg_stat_statements counts them. String constants are masked.

    \b
    Example:
      ramet db top shop
    """
    found = client.get_top_statements(service.service_id, limit)
    print_result(found, output, lambda: _print_statements(found))


@service_command("activity")
@_limit
@output_option
def show_activity(client: Client, service: Service, limit: int, output: str) -> None:
    """Show the sessions of a service: first those that wait for locks, then those that they wait for.

    String constants are masked. 'SELECT pg_terminate_backend(PID)' ends a session.

    \b
    Example:
      ramet db activity shop
    """
    found = client.get_activity(service.service_id, limit)
    print_result(found, output, lambda: _print_sessions(found))


def _print_statements(found: TopStatements) -> None:
    if not found.statements:
        say("No statements have been counted yet.")
        return
    rows = [
        (f"{one.total_ms:.0f}", f"{one.mean_ms:.2f}", one.calls, one.rows, one.role or "-", _short(one.text))
        for one in found.statements
    ]
    print_rows(("total ms", "mean ms", "calls", "rows", "role", "statement"), _texts(rows))


def _print_sessions(found: Activity) -> None:
    if not found.sessions:
        say("There are no sessions.")
        return
    rows = [
        (
            one.pid,
            one.role or one.kind,
            one.state or "-",
            "-" if one.transaction_seconds is None else f"{one.transaction_seconds:.1f} s",
            ", ".join(map(str, one.blocked_by)) or "-",
            one.waits_for or "-",
            _short(one.text or "-"),
        )
        for one in found.sessions
    ]
    print_rows(("pid", "role", "state", "transaction", "blocked by", "waits for", "statement"), _texts(rows))


def _texts(rows: list[tuple[Any, ...]]) -> list[list[str]]:
    return [[str(value) for value in row] for row in rows]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
