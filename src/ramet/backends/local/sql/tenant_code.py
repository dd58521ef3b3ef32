"""Statements that may execute functions of tenants: index expressions and predicates, extended statistics, ranges.

PostgreSQL executes these as the owner of the table, in a security-restricted operation. They may hang, they may catch
the error of statement_timeout, and they may depend on the search path of their owner.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection
from ramet.errors import Unavailable

_log = logging.getLogger(__name__)

# For a table's oid: the search path of its owner in this database, and the table's schema.
_PATH = """
SELECT coalesce((
    SELECT substr(setting, 13) FROM pg_db_role_setting, unnest(setconfig) AS setting
    WHERE setting LIKE 'search\\_path=%%' AND setrole IN (0, c.relowner)
        AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
    ORDER BY setrole = 0, setdatabase = 0 LIMIT 1
), '"$user", public'), quote_ident(nspname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""


def search_paths(connection: Connection, table: int) -> list[str]:
    """Return the search paths with which the functions of a table's indexes are likely to work."""
    found = connection.execute(_PATH.encode(), (table,)).fetchone()
    if found is None:
        return []
    return [found[0], f"{found[1]}, {found[0]}" if found[0] else found[1]]


@contextmanager
def tenants_path(connection: Connection, path: str) -> Iterator[None]:
    """Set a search path temporarily; statements in the body must qualify all names."""
    connection.execute("SELECT pg_catalog.set_config('search_path', %s, false)", (path,))
    try:
        yield
    finally:
        if not connection.broken:
            connection.execute("SELECT pg_catalog.set_config('search_path', 'pg_catalog', false)")


@dataclass
class Allowance:
    """How long functions of tenants may run: in one statement, and in total; and any other statement on a table."""

    statement_seconds: float = 60.0
    seconds: float = 600.0
    plain_seconds: float = 600.0
    grace_seconds: float = 5.0

    @contextmanager
    def statement(self, paths: ServicePaths, connection: Connection, path: str) -> Iterator[None]:
        """Apply a search path and the time limit to a statement; a session that ignores the limit is terminated.

        Raises TimeoutError when the total is used up, or the session was terminated for that.
        """
        seconds = min(self.statement_seconds, self.seconds)
        if seconds <= 0:
            raise TimeoutError("functions of its owner have already run for too long")
        begun = time.monotonic()
        try:
            with _limited(paths, connection, seconds, self.grace_seconds), tenants_path(connection, path):
                yield
        finally:
            self.seconds -= time.monotonic() - begun

    def plain(self, paths: ServicePaths, connection: Connection) -> AbstractContextManager[None]:
        """Limit a statement that is not expected to execute functions of tenants, though one of a type may hang."""
        return _limited(paths, connection, self.plain_seconds, self.grace_seconds)


@contextmanager
def _limited(paths: ServicePaths, connection: Connection, seconds: float, grace_seconds: float) -> Iterator[None]:
    is_over = threading.Event()
    timer = threading.Timer(seconds + grace_seconds, _terminate, (paths, connection.info.backend_pid, is_over))
    timer.daemon = True
    connection.execute("SELECT pg_catalog.set_config('statement_timeout', %s, false)", (str(int(seconds * 1000)),))
    timer.start()
    try:
        yield
    except psycopg.errors.AdminShutdown as error:
        if not is_over.is_set():  # the server is stopped
            raise
        raise TimeoutError("its session was terminated, because it ran for too long") from error
    finally:
        timer.cancel()
        if not connection.broken:
            connection.execute("SELECT pg_catalog.set_config('statement_timeout', '0', false)")


def _terminate(paths: ServicePaths, pid: int, is_over: threading.Event) -> None:
    is_over.set()
    with suppress(Unavailable, psycopg.Error), connections.connect(paths) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
        _log.warning("service %s: terminated a session of the platform: a function ran too long", paths.service_id)


def message_of(error: psycopg.Error) -> str:
    """Return the message of an error, in one line."""
    return (error.diag.message_primary or str(error)).strip().splitlines()[0]
