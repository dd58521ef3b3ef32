"""The tables and views of a database, as an agent needs them to write SQL."""

from typing import Any, LiteralString

import psycopg

MOST_TABLES = 200
_KINDS = {"r": "table", "p": "partitioned table", "v": "view", "m": "materialized view", "f": "foreign table"}
_TABLES: LiteralString = """
SELECT format('%%I.%%I', n.nspname, c.relname), c.relkind::text,
       CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint END, obj_description(c.oid, 'pg_class'),
       ARRAY(SELECT concat_ws(' ', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod),
                              CASE WHEN a.attnotnull THEN 'NOT NULL' END,
                              'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid))
             FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
       ARRAY(SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k
             WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'f', 'c', 'x') ORDER BY k.contype, k.conname),
       ARRAY(SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i
             WHERE i.indrelid = c.oid AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid
                                                              AND k.conrelid = c.oid AND k.contype IN ('p', 'u', 'x'))
             ORDER BY i.indexrelid::regclass::text),
       CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid, true) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname <> ALL ('{information_schema,_timescaledb_internal}') AND n.nspname !~ '^pg_'
  AND NOT EXISTS (SELECT FROM pg_depend e
                  WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')
  AND (%(table)s::text IS NULL OR %(table)s IN (c.relname, n.nspname || '.' || c.relname))
ORDER BY n.nspname, c.relname LIMIT %(limit)s
"""


def describe_tables(session: psycopg.Connection, table: str | None) -> dict[str, Any]:
    """Return the tables and views of a database, or those with a name, with or without its schema.

    The chunks of hypertables, which TimescaleDB makes and which no extension owns, are left out.
    """
    found = session.execute(_TABLES, {"table": table, "limit": MOST_TABLES + 1}).fetchall()
    described: dict[str, Any] = {"tables": [_described(*row) for row in found[:MOST_TABLES]]}
    if len(found) > MOST_TABLES:
        described["truncated"] = f"There are more than {MOST_TABLES} tables: ask for one, or query pg_class."
    return described


def _described(
    name: str,
    kind: str,
    rows: int | None,
    comment: str | None,
    columns: list[str],
    constraints: list[str],
    indexes: list[str],
    definition: str | None,
) -> dict[str, Any]:
    known = {
        "name": name,
        "kind": _KINDS[kind],
        "estimated_rows": rows,
        "comment": comment,
        "columns": columns,
        "constraints": constraints,
        "indexes": indexes,
        "definition": definition,
    }
    return {field: value for field, value in known.items() if value not in (None, [])}
