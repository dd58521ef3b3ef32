"""Unlogged tables: a physical copy of a running server has them without their rows."""

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.each_database import in_each
from ramet.backends.local.sql.raw_names import shown

REPORTED_TABLES = 100
_TABLES = """
SELECT oid::regclass::text FROM pg_class WHERE relpersistence = 'u' AND relkind IN ('r', 'm') ORDER BY 1 LIMIT %s
"""


def unlogged_tables(paths: ServicePaths, most: int | None = None) -> list[str]:
    """Return the names of the unlogged tables of a serving server, with their databases; at most `most`, if given."""

    def of_database(connection: connections.Connection) -> list[str]:
        return [name for (name,) in connection.execute(_TABLES, (most,)).fetchall()]

    with connections.connect_inside(paths) as connection:
        found = in_each(paths, connection, connections.tenant_databases(connection), of_database)
    return [shown(f"{database}.{table}") for database, tables in found.items() for table in tables][:most]
