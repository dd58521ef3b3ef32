"""The subscription in a server of this host. A superuser owns it: its worker takes the role of each table's owner.

That is so from PostgreSQL 16 on. Before, tenants' triggers and functions would run as the superuser.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from psycopg import sql

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import DATABASE, Connection
from ramet.backends.local.subscriptions.publisher import SequenceValue

OLDEST_MAJOR = 16
_TABLES = """
SELECT count(*), count(*) FILTER (WHERE srsubstate = 'r') FROM pg_subscription_rel r
JOIN pg_subscription s ON s.oid = r.srsubid WHERE subname = %s
"""
_NAMES = """
SELECT nspname::text, relname::text FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid
JOIN pg_class c ON c.oid = r.srrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE subname = %s
"""
_WORKER = """
SELECT EXISTS (SELECT FROM pg_stat_subscription w WHERE w.subid = s.oid AND w.relid IS NULL
        AND w.pid IS NOT NULL AND w.latest_end_lsn IS NOT NULL),
    EXISTS (SELECT FROM pg_stat_subscription_stats t WHERE t.subid = s.oid AND apply_error_count > 0),
    EXISTS (SELECT FROM pg_stat_subscription_stats t WHERE t.subid = s.oid AND sync_error_count > 0)
FROM pg_subscription s WHERE subname = %s
"""


def create(paths: ServicePaths, name: str, conninfo: str) -> None:
    """Make the subscription, which begins to copy, unless it exists. Publication and slot of that name exist."""
    with connections.connect(paths, DATABASE, statement_timeout="60s") as connection:
        if state(connection, name) is None:
            command = sql.SQL(
                "CREATE SUBSCRIPTION {name} CONNECTION {conninfo} PUBLICATION {name}"
                " WITH (create_slot = false, slot_name = {slot}, copy_data = true, run_as_owner = false)"
            )
            names = {"name": sql.Identifier(name), "conninfo": sql.Literal(conninfo), "slot": sql.Literal(name)}
            connection.execute(command.format(**names))


class SubscriptionHealth(NamedTuple):
    """Whether a subscription receives, and whether applying changes and copying tables have failed since it began."""

    receives: bool
    apply_failed: bool
    copy_failed: bool


def state(connection: Connection, name: str) -> SubscriptionHealth | None:
    """Return how a subscription is; None: there is none."""
    row = connection.execute(_WORKER, (name,)).fetchone()
    return None if row is None else SubscriptionHealth(*row)


def copied(connection: Connection, name: str) -> tuple[int, int]:
    """Return the number of tables, and of those whose first copy is complete."""
    tables, done = connection.execute(_TABLES, (name,)).fetchall()[0]
    return tables, done


def tables_of(connection: Connection, name: str) -> set[tuple[str, str]]:
    """Return the schemas and names of the tables that a subscription receives; it ignores those made later."""
    return {(schema, table) for schema, table in connection.execute(_NAMES, (name,)).fetchall()}


def set_sequences(connection: Connection, sequences: Sequence[SequenceValue]) -> int:
    """Give sequences that exist here their values; return their number."""
    count = 0
    for schema, name, last, is_called in sequences:
        found = connection.execute("SELECT to_regclass(format('%%I.%%I', %s::text, %s::text))", (schema, name))
        oid: Any = found.fetchall()[0][0]
        if oid is not None:
            connection.execute("SELECT setval(%s::regclass, %s, %s)", (oid, last, is_called))
            count += 1
    return count


def drop(connection: Connection, name: str) -> None:
    """Drop the subscription, if it exists, without contacting the source."""
    if state(connection, name) is not None:
        connections.run(connection, "ALTER SUBSCRIPTION {} DISABLE", name)
        connections.run(connection, "ALTER SUBSCRIPTION {} SET (slot_name = NONE)", name)
        connections.run(connection, "DROP SUBSCRIPTION {}", name)
