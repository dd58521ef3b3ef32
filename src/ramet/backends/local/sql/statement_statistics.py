"""Where a database has the function pg_stat_statements: a view of that name could be of a tenant."""

from ramet.backends.local.sql.connections import Connection

_SCHEMA = """
SELECT nspname FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
WHERE extname = 'pg_stat_statements' AND proname = 'pg_stat_statements' AND probin = '$libdir/pg_stat_statements'
    AND pronargs = 1 AND proargtypes[0] = 'bool'::regtype
"""


def schema_of(connection: Connection) -> str | None:
    """Return the schema of the function pg_stat_statements(bool) as the extension installs it; None without it."""
    found = connection.execute(_SCHEMA).fetchone()
    return None if found is None else str(found[0])
