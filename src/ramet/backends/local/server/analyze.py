"""ANALYZE all tables, one by one, so that a table whose ANALYZE fails or hangs does not affect the others."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import psycopg

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.raw_names import encoded, shown
from ramet.backends.local.sql.tenant_code import Allowance, message_of, search_paths
from ramet.errors import Unavailable

_OVERALL_SECONDS = 3600.0
_LOST_SECONDS, _PAUSE_SECONDS, _MOST_LOSSES = 600.0, 1.0, 2
_LOST = "the server, or the connection to it, was lost during ANALYZE"
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


def _enter(paths: ServicePaths) -> None:
    with connections.connect(paths):
        pass


def collect(paths: ServicePaths, allowance: Allowance, enter: Callable[[], object] | None = None) -> str:
    """Collect the statistics of all databases; return the result, with the tables that failed and why.

    A server that is lost while a table is analyzed is waited for, and the other tables follow: ANALYZE of that table
    may be what crashes it. After the second loss none follows. Raises Unavailable when the server was stopped, or
    could not be reached before any table was analyzed. `enter` is what connects to find that the server serves; it
    may raise Failed, which ends this.
    """
    collection = _Collection(paths, allowance, enter or partial(_enter, paths))
    try:
        collection.await_serving()
        with connections.connect(paths) as connection:
            names = [each.name for each in connections.databases(connection) if each.is_open]
    except psycopg.Error as error:
        return shown(f"not collected: {error}")
    failures: list[str] = []
    for name in names:
        failures += [shown(f"{name}.{failure}") for failure in collection.analyze(name)]
    if not failures:
        return "collected"
    more = f"; and {len(failures) - _SHOWN_FAILURES} more" if len(failures) > _SHOWN_FAILURES else ""
    return f"collected, except for {'; '.join(failures[:_SHOWN_FAILURES])}"[:_SHOWN_CHARACTERS] + more


@dataclass
class _Collection:
    """The statistics of the databases of a server. `losses` counts how often the server was lost."""

    paths: ServicePaths
    allowance: Allowance
    enter: Callable[[], object]
    losses: int = 0
    deadline: float = field(default_factory=lambda: time.monotonic() + _OVERALL_SECONDS)

    def await_serving(self) -> None:
        """Return when the server serves.

        Raises Unavailable where it was stopped, or removed, and so has no lock file, or does not serve in time.
        """
        deadline = time.monotonic() + _LOST_SECONDS
        while True:
            try:
                self.enter()
            except psycopg.Error:
                return  # it answers, and who connects next finds the error
            except Unavailable:
                if time.monotonic() > deadline or not files.is_there(self.paths.pid_file):
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    def analyze(self, name: str) -> Iterator[str]:
        """Analyze the tables of one database; yield the failures."""
        tables: list[_Table] | None = None
        is_refused = False
        while tables is None or tables:
            if reason := self._over():
                yield f"{_shown_tables(tables)}: {reason}"
                return
            try:
                with connections.connect(self.paths, name) as connection:
                    if tables is None:
                        tables = [_Table(*row) for row in connection.execute(_TABLES.encode())]
                    is_refused = False
                    while tables and not connection.broken and not self._over():
                        yield from self._failure(connection, tables.pop(0))
            except psycopg.Error as error:
                yield f"{_shown_tables(tables)}: {error}"
                return
            except Unavailable as error:
                self.await_serving()
                if is_refused:  # though the server serves: the database is locked
                    yield f"{_shown_tables(tables)}: {error}"
                    return
                is_refused = True

    def _over(self) -> str:
        """Return why no other table is analyzed; empty as long as one may be."""
        if self.losses >= _MOST_LOSSES:
            return "not tried, as the server was lost"
        return "no time was left" if time.monotonic() > self.deadline else ""

    def _failure(self, connection: Connection, table: _Table) -> Iterator[str]:
        """Analyze one table; yield why that failed, unless the table was dropped."""
        try:
            if table.has_functions:
                _with_functions(self.paths, connection, table, self.allowance)
            else:
                with self.allowance.plain(self.paths, connection):
                    connection.execute(encoded(f"ANALYZE {table.name}"))
        except psycopg.errors.UndefinedTable:
            return
        except psycopg.Error as error:
            if connection.broken:
                self._await_lost()
            yield f"{table.name}: {_LOST if connection.broken else message_of(error)}"
        except TimeoutError as error:
            yield f"{table.name}: {error}"

    def _await_lost(self) -> None:
        """Count a loss of the server, and return when it serves again, or is given up.

        Raises Unavailable where it was stopped, or removed.
        """
        self.losses += 1
        time.sleep(_PAUSE_SECONDS)  # it accepts sessions until it knows of the crash of one, and ends them then
        try:
            self.await_serving()
        except Unavailable:
            if not files.is_there(self.paths.pid_file):
                raise
            self.losses = _MOST_LOSSES


def _shown_tables(tables: list[_Table] | None) -> str:
    if not tables:
        return "*"
    return f"{tables[0].name} and {len(tables) - 1} more" if len(tables) > 1 else tables[0].name


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
