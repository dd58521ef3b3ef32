"""`ramet db`: top, activity, tables."""

from typing import Any

import click

from ramet.api.schemas.insight import Activity, Tables, TableSize, TopStatements
from ramet.api.schemas.services import Service
from ramet.cli.ui.durations import shown_mib
from ramet.cli.ui.options import output_option, service_command
from ramet.cli.ui.output import print_result, print_rows, say
from ramet.client import Client
from ramet.endpoints import DATABASE
from ramet.model.timestamps import rfc3339

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


@service_command("tables")
@click.option("--database", default=DATABASE, show_default=True, help="Which database of the service.")
@_limit
@output_option
def show_tables(client: Client, service: Service, database: str, limit: int, output: str) -> None:
    """Show the largest tables of a service, and indexes that no scan has used and no constraint needs.

    Rows and dead rows are PostgreSQL's estimates. A table that is locked has no size. Scans on read replicas are not
    counted.

    \b
    Examples:
      ramet db tables shop
      ramet db tables shop --database reports --limit 50
    """
    found = client.get_tables(service.service_id, database, limit)
    print_result(found, output, lambda: _print_tables(found))


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


def _print_tables(found: Tables) -> None:
    if not found.tables:
        say(f"Database {found.database} has no tables.")
        return
    columns = ("table", "total", "heap", "indexes", "TOAST", "rows", "dead", "vacuumed", "analyzed")
    print_rows(columns, [_table_row(one) for one in found.tables])
    if not found.is_complete:
        say("There are more tables than can be measured at once.", "yellow")
    if found.unused_indexes:
        since = "the server began to count" if found.counted_since is None else rfc3339(found.counted_since)
        say(f"Not used since {since}:")
        rows = [(f"{one.schema}.{one.name}", _size(one.size_bytes), one.table) for one in found.unused_indexes]
        print_rows(("index", "size", "of table"), rows)


def _table_row(one: TableSize) -> list[str]:
    sizes = [_size(each) for each in (one.total_bytes, one.heap_bytes, one.indexes_bytes, one.toast_bytes)]
    times = ["never" if each is None else rfc3339(each) for each in (one.vacuumed_at, one.analyzed_at)]
    return [f"{one.schema}.{one.name}", *sizes, "?" if one.rows is None else str(one.rows), str(one.dead_rows), *times]


def _size(size_bytes: int | None) -> str:
    return "locked" if size_bytes is None else shown_mib(size_bytes)


def _texts(rows: list[tuple[Any, ...]]) -> list[list[str]]:
    return [[str(value) for value in row] for row in rows]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
