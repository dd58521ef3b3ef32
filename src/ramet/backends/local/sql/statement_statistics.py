"""Queries of pg_stat_statements as its extension installs it: a function or a view of that name could be of a tenant.

The schema of the extension may be a tenant's, who can give its name to another one at any moment. A lock of its row
would take a transaction id, which shows as a change of the data, and which a standby does not have. So the query gets a
parameter of the view's own type, by number, and PostgreSQL refuses to parse it where the name means any other relation:
it then executes nothing of that. The view itself refers to its function by number, too.
"""

from typing import Any

import psycopg
from psycopg.adapt import Dumper

from ramet.backends.local.sql import raw_names
from ramet.backends.local.sql.connections import Connection

# The view does nothing but call the function, which is C code, and nobody but superusers can replace either of them.
_VIEW = r"""
SELECT nspname, typarray FROM pg_class v JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_type t ON t.oid = reltype
JOIN pg_rewrite r ON r.ev_class = v.oid
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_proc'::regclass
JOIN pg_proc p ON p.oid = d.refobjid
WHERE relname = 'pg_stat_statements' AND relkind = 'v'
    AND proname = 'pg_stat_statements' AND probin = '$libdir/pg_stat_statements'
    AND (SELECT bool_and(rolsuper) FROM pg_roles a WHERE a.oid IN (relowner, proowner))
    AND NOT EXISTS (SELECT FROM pg_depend o WHERE o.classid = d.classid AND o.objid = r.oid
        AND (o.refclassid, o.refobjid) NOT IN ((d.refclassid, p.oid), ('pg_class'::regclass, v.oid)))
    AND (SELECT count(*) FROM regexp_matches(ev_action::text, '\{FUNCEXPR\M', 'g')) = 1
    AND NOT EXISTS (SELECT FROM regexp_matches(ev_action::text, '\{([A-Z_]+)', 'g') AS node(name)
        WHERE name[1] <> ALL ('{QUERY,RTE,RANGETBLENTRY,RTEPERMISSIONINFO,ALIAS,RANGETBLFUNCTION,FUNCEXPR,CONST,'
            'TARGETENTRY,VAR,FROMEXPR,RANGETBLREF}'))
"""
# `s.*` is the whole row even where a relation has a column `s`. Both arguments of array_eq must have the same type,
# whatever casts there are, and it is parsed before any other part of the query. The planner removes it.
_COUNTED = "(SELECT s.* FROM {}.pg_stat_statements AS s WHERE true OR pg_catalog.array_eq(ARRAY[s.*], $1)) AS counted"

# PostgreSQL converts the texts of all databases for the one that asks, and refuses what does not fit its encoding.
UNREADABLE = (psycopg.errors.CharacterNotInRepertoire, psycopg.errors.UntranslatableCharacter)
_CONVERSION = "pg_do_encoding_conversion"  # PostgreSQL's own function, which says that there is none for two encodings
# In place of {counted}: the same rows without their texts, none of which is converted for a role that may not read it.
# Nobody can make this role a member of others. All privileges are checked before, as those of the superuser.
WITHOUT_TEXTS = """(SELECT set_config('role', 'pg_database_owner', true) OFFSET 0) AS became
CROSS JOIN LATERAL (SELECT * FROM {counted} WHERE became.set_config <> '' OFFSET 0) AS numbers"""


class _NoRows:
    """An empty array of a type that only its number names."""


def query(connection: Connection, statement: str, **literals: str | int | None) -> list[tuple[Any, ...]] | None:
    """Return the rows of a query of {counted}, the rows of the view; None where a database does not have it.

    Raises UNREADABLE where the text of a statement in any database cannot be converted, and
    psycopg.errors.UndefinedFunction or UndefinedTable where the view is renamed at that moment.
    """
    found = connection.execute(_VIEW.encode()).fetchone()
    if found is None:
        return None
    schema, array_type = found

    class EmptyArray(Dumper):
        oid = array_type

        def dump(self, obj: _NoRows) -> bytes:
            return b"{}"

    cursor = psycopg.RawCursor(connection)
    cursor.adapters.register_dumper(_NoRows, EmptyArray)
    composed = raw_names.composed(connection, statement.replace("{counted}", _COUNTED), (schema,), literals)
    try:
        return cursor.execute(composed, (_NoRows(),)).fetchall()
    except psycopg.errors.UndefinedFunction as error:
        if error.diag.source_function != _CONVERSION:
            raise
        raise psycopg.errors.UntranslatableCharacter(str(error)) from error
