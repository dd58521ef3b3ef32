"""Queries of the function pg_stat_statements: a view of that name could be of a tenant."""

from typing import Any

from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection

_SCHEMA = """
SELECT nspname FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
WHERE extname = 'pg_stat_statements' AND proname = 'pg_stat_statements' AND probin = '$libdir/pg_stat_statements'
    AND pronargs = 1 AND proargtypes[0] = 'bool'::regtype
FOR SHARE OF p, n
"""


def query(connection: Connection, statement: str, **literals: str | int | None) -> list[tuple[Any, ...]] | None:
    """Return the rows of a query of {}.pg_stat_statements(true) as the extension installs it; None without it.

    The schema may be a tenant's, who could give its name to another one in between: so it is locked, and the function.
    A standby cannot lock them.
    """
    with connection.transaction():
        found = connection.execute(_SCHEMA).fetchone()
        return None if found is None else connections.query(connection, statement, str(found[0]), **literals)
