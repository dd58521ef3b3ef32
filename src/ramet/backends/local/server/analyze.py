"""ANALYZE all tables, one by one, so that a table whose ANALYZE fails or hangs does not affect the others."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.raw_names import encoded, shown
from ramet.backends.local.sql.tenant_code import Allowance, message_of, search_paths
from ramet.errors import Unavailable

_OVERALL_SECONDS = 3600.0
_SHOWN_FAILURES, _SHOWN_CHARACTERS = 10, 4000

# With a list of columns ANALYZE skips index expressions.
_TABLES = """
SELECT c.oid, format('%I.%I', nspname, relname), EXISTS (
    SELECT FROM pg_index WHERE indrelid = c.oid AND (indexprs IS NOT NULL OR indpred IS NOT NULL)
) OR EXISTS (SELECT FROM pg_statistic_ext WHERE stxrelid = c.oid AND stxexprs IS NOT NULL), (
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
    WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE relkind IN ('r', 'm') AND relpersistence <> 't' ORDER BY 3, 1
"""


@dataclass(frozen=True)
class _Table:
    oid: int
    name: str
    has_functions: bool
    columns: str | None


def collect(paths: ServicePaths, allowance: Allowance) -> str:
    """Collect the statistics of all databases; return the result, with the tables that failed and why.

    Raises Unavailable when the server ends.
    """
    deadline = time.monotonic() + _OVERALL_SECONDS
    try:
        with connections.connect(paths) as connection:
            names = [each.name for each in connections.databases(connection) if each.is_open]
    except psycopg.Error as error:
        return shown(f"not collected: {error}")
    failures: list[str] = []
    for name in names:
        found = [shown(f"{name}.{failure}") for failure in _database(paths, name, allowance, deadline)]
        if found:
            _check_serves(paths)
        failures += found
    if not failures:
        return "collected"
    more = f"; and {len(failures) - _SHOWN_FAILURES} more" if len(failures) > _SHOWN_FAILURES else ""
    return f"collected, except for {'; '.join(failures[:_SHOWN_FAILURES])}"[:_SHOWN_CHARACTERS] + more


def _check_serves(paths: ServicePaths) -> None:
    """Raise Unavailable when the server has ended: a lost session may also be one that was terminated."""
    with suppress(psycopg.Error), connections.connect(paths):
        pass


def _database(paths: ServicePaths, name: str, allowance: Allowance, deadline: float) -> Iterator[str]:
    """Analyze the tables of one database; yield the failures."""
    tables: list[_Table] | None = None
    try:
        while tables is None or tables:
            with connections.connect(paths, name) as connection:
                if tables is None:
                    tables = [_Table(*row) for row in connection.execute(_TABLES.encode())]
                while tables and not connection.broken:
                    if time.monotonic() > deadline:
                        yield f"{tables[0].name} and {len(tables) - 1} more: no time was left"
                        return
                    yield from _failure(paths, connection, tables.pop(0), allowance)
    except (psycopg.Error, Unavailable) as error:
        yield f"*: {error}"


def _failure(paths: ServicePaths, connection: Connection, table: _Table, allowance: Allowance) -> Iterator[str]:
    """Analyze one table; yield why that failed, unless the table was dropped."""
    try:
        if table.has_functions:
            _with_functions(paths, connection, table, allowance)
        else:
            with allowance.plain(paths, connection):
                connection.execute(encoded(f"ANALYZE {table.name}"))
    except psycopg.errors.UndefinedTable:
        return
    except psycopg.Error as error:
        yield f"{table.name}: {message_of(error)}"
    except TimeoutError as error:
        yield f"{table.name}: {error}"


def _with_functions(paths: ServicePaths, connection: Connection, table: _Table, allowance: Allowance) -> None:
    """Analyze a table as its owner would, or only its columns if the owner's functions fail."""
    tried = search_paths(connection, table.oid)
    for path in tried:
        try:
            with allowance.statement(paths, connection, path):
                connection.execute(encoded(f"ANALYZE {table.name}"))
        except psycopg.errors.QueryCanceled:
            break
        except psycopg.Error:
            if connection.broken:
                raise
        else:
            return
    columns = f" ({table.columns})" if table.columns else ""
    with allowance.statement(paths, connection, (tried or ["pg_catalog"])[0]):
        connection.execute(encoded(f"ANALYZE {table.name}{columns}"))
