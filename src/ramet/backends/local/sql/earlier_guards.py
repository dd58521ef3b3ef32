"""Remove the triggers, event triggers and functions that Ramet put into every database before its first release.

Data directories of that time have them until they are renewed. Their rows are deleted from the catalogs, which needs no
lock on tenants' tables, and which extensions cannot prevent. read_only_access.py replaces them.
"""

from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection

_FUNCTIONS = (
    "ramet_refuse_writes",
    "ramet_reads_only",
    "ramet_refuse_definitions",
    "ramet_guard_tables",
    "ramet_keep_guards",
    "ramet_keep_names",
)
_OF_FUNCTIONS = "IN (SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY(%s))"
_FIND = "SELECT FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = 'ramet_refuse_writes'"
_FIND_EVENT_TRIGGERS = f"SELECT evtname FROM pg_event_trigger WHERE evtfoid {_OF_FUNCTIONS}"  # noqa: S608 - all of it is ours
# Updating a row of pg_attribute invalidates the cached triggers of its table in all sessions.
_DELETE_TRIGGERS = f"""
WITH gone AS (DELETE FROM pg_trigger WHERE tgfoid {_OF_FUNCTIONS} RETURNING oid, tgrelid),
     depends AS (DELETE FROM pg_depend d USING gone WHERE d.classid = 'pg_trigger'::regclass AND d.objid = gone.oid),
     described AS (
         DELETE FROM pg_description d USING gone WHERE d.classoid = 'pg_trigger'::regclass AND d.objoid = gone.oid)
UPDATE pg_attribute a SET attnum = attnum FROM gone WHERE a.attrelid = gone.tgrelid AND a.attnum = -1
"""  # noqa: S608 - all of it is ours
# Statements that still run may have read the triggers before, and may still call their functions.
_STATEMENTS_BEFORE = """
SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
AND state = 'active' AND backend_type = 'client backend' AND query_start < %s LIMIT 1
"""


def are_in(connection: Connection) -> bool:
    """Tell whether a database still has these functions."""
    return connection.execute(_FIND).fetchone() is not None


def remove(connection: Connection) -> bool:
    """Remove all guards from one database; False when running statements may still need their functions."""
    if not are_in(connection):
        return True
    with connection.transaction():
        for (name,) in connection.execute(_FIND_EVENT_TRIGGERS, (list(_FUNCTIONS),)).fetchall():
            drop_event_trigger(connection, name)
        connection.execute(_DELETE_TRIGGERS, (list(_FUNCTIONS),))
    if _still_used(connection):
        return False
    for function in _FUNCTIONS:
        connection.execute(f"DROP FUNCTION IF EXISTS pg_catalog.{function}()".encode())
    return True


def drop_event_trigger(connection: Connection, name: str) -> None:
    """Drop an event trigger that is a member of the extension plpgsql."""
    connections.run(connection, "ALTER EXTENSION plpgsql DROP EVENT TRIGGER {}", name)
    connections.run(connection, "DROP EVENT TRIGGER {}", name)


def _still_used(connection: Connection) -> bool:
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    return row is not None and connection.execute(_STATEMENTS_BEFORE, row).fetchone() is not None
