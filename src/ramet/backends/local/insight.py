"""What the servers of this host do, as their own views tell."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import psycopg

from ramet.backends.interface.insight import Session, Tables, TopStatement
from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, statement_statistics, table_sizes
from ramet.backends.local.sql.connections import DATABASE, Connection
from ramet.backends.local.sql.raw_names import convert_texts, shown, shown_values
from ramet.errors import NotFound, Unavailable, WrongState
from ramet.model.statement_text import without_literals

_SECONDS = 3
_ATTEMPTS = 3
_LOCKED = "500ms"
_STATEMENTS = """
SELECT left(query, {longest}), datname, pg_get_userbyid(userid), calls, total_exec_time, mean_exec_time, rows,
    shared_blks_hit, shared_blks_read
FROM {counted} JOIN pg_database d ON d.oid = dbid
WHERE datname = {database} AND userid <> {platform} AND toplevel ORDER BY total_exec_time DESC LIMIT {limit}
"""
_NUMBERS = _STATEMENTS.replace("{counted}", statement_statistics.WITHOUT_TEXTS)
_SESSIONS = """
WITH seen AS MATERIALIZED (
    SELECT *, CASE WHEN wait_event_type = 'Lock' THEN pg_blocking_pids(pid) ELSE '{{}}' END AS blocked_by
    FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type NOT IN (
        'archiver', 'autovacuum launcher', 'background writer', 'checkpointer', 'io worker', 'logger',
        'logical replication launcher', 'slotsync worker', 'startup', 'walreceiver', 'walsummarizer', 'walwriter')
), blocking AS (SELECT DISTINCT unnest(blocked_by) AS pid FROM seen)
SELECT pid, backend_type, datname, usename, application_name, host(client_addr), state,
    CASE WHEN state = 'active' THEN wait_event_type || ': ' || wait_event END, blocked_by,
    extract(epoch FROM clock_timestamp() - xact_start)::float8,
    extract(epoch FROM clock_timestamp() - state_change)::float8,
    CASE WHEN usesysid IS DISTINCT FROM {platform} THEN query END
FROM seen WHERE usesysid IS DISTINCT FROM {platform} OR pid IN (SELECT pid FROM blocking)
ORDER BY blocked_by = '{{}}', pid NOT IN (SELECT pid FROM blocking), state IS DISTINCT FROM 'active', xact_start, pid
LIMIT {limit}
"""
_PLATFORM = 10  # the bootstrap superuser, whatever its name
_LONGEST = 4000
NO_TEXT = f"unknown: pg_stat_statements has a text that does not fit the encoding of {DATABASE}"


@dataclass(frozen=True)
class LocalInsight:
    """The views of running servers; obeys ramet.backends.interface.insight.Insight."""

    instances: Instances

    def statements(self, server: Server, limit: int) -> Sequence[TopStatement]:
        with self._connect(server, DATABASE) as connection:
            asked: dict[str, str | int] = {
                "database": DATABASE,
                "platform": _PLATFORM,
                "longest": _LONGEST,
                "limit": limit,
            }
            try:
                rows, are_texts = statement_statistics.query(connection, _STATEMENTS, **asked), True
            except statement_statistics.UNREADABLE:
                rows, are_texts = statement_statistics.query(connection, _NUMBERS, **asked), False
        if rows is None:
            raise WrongState(
                "STATEMENTS_NOT_COUNTED",
                f"Database {DATABASE} of service {server.service_id} has no extension pg_stat_statements, or not"
                " with the view that it installs",
                "Install PostgreSQL's contrib modules on the host; services that are made afterwards have it.",
            )
        return [
            TopStatement(without_literals(shown(text or "")) if are_texts else NO_TEXT, *shown_values(rest))
            for text, *rest in rows
        ]

    def activity(self, server: Server, limit: int) -> Sequence[Session]:
        with self._connect(server, "postgres") as connection:
            rows = connections.query(connection, _SESSIONS, platform=_PLATFORM, limit=limit)
        found = [Session(*shown_values(row)) for row in rows]
        return [replace(one, text=one.text and without_literals(one.text)) for one in found]

    def tables(self, server: Server, database: str, limit: int) -> Tables:
        with self._connect(server, "postgres") as connection:
            known = {shown(one.name): one.name for one in connections.databases(connection) if one.is_open}
        if database not in known:
            raise NotFound(
                "DATABASE_NOT_FOUND",
                f"service {server.service_id} has no database {database[:64]!r}",
                f"The databases are {', '.join(sorted(known)[:20])}.",
            )
        with self._connect(server, known[database], lock_timeout=_LOCKED) as connection:
            for _ in range(_ATTEMPTS - 1):
                with suppress(psycopg.errors.LockNotAvailable):
                    return table_sizes.measure(connection, limit)
            return table_sizes.measure(connection, limit)

    @contextmanager
    def _connect(self, server: Server, database: str, lock_timeout: str = f"{_SECONDS}s") -> Iterator[Connection]:
        paths, bound = self.instances.paths(server.service_id), f"{_SECONDS}s"
        try:
            with connections.connect(
                paths, database, timeout_seconds=_SECONDS, statement_timeout=bound, lock_timeout=lock_timeout
            ) as connection:
                convert_texts(connection)
                yield connection
        except psycopg.Error as error:
            raise Unavailable(
                "SERVER_BUSY",
                f"Database {shown(database)} of service {server.service_id} did not answer: {str(error).strip()}",
                "Ask again later.",
            ) from error
