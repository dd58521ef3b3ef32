"""How large the tables of a database are, and which of its indexes are not used.

Functions for sizes lock what they measure, and would wait for everybody who rebuilds or changes it: what is locked is
left out. Locks that are taken in between are waited for as long as the connection's lock_timeout says.
"""

from datetime import datetime

from ramet.backends.interface.insight import Table, Tables, UnusedIndex
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.raw_names import database_of, shown

_MOST = 5000
_TABLES = """
WITH locked AS MATERIALIZED (
    SELECT DISTINCT relation FROM pg_locks JOIN pg_database d ON d.oid = database
    WHERE locktype = 'relation' AND mode = 'AccessExclusiveLock' AND datname = current_database()
), known AS MATERIALIZED (
    SELECT c.oid, nspname, relname, reltuples, reltoastrelid, EXISTS (
        SELECT FROM locked WHERE relation IN (c.oid, reltoastrelid) OR relation IN (
            SELECT indexrelid FROM pg_index WHERE indrelid IN (c.oid, reltoastrelid))
    ) AS is_locked
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE relkind IN ('r', 'm') AND relpersistence <> 't' AND nspname !~ '^pg_'
        AND nspname <> 'information_schema'
    ORDER BY relpages DESC, c.oid LIMIT {most}
), sized AS MATERIALIZED (
    SELECT *,
        CASE WHEN NOT is_locked THEN
            pg_relation_size(oid) + pg_relation_size(oid, 'fsm') + pg_relation_size(oid, 'vm') END AS heap,
        CASE WHEN NOT is_locked THEN pg_indexes_size(oid) END AS indexes,
        CASE WHEN is_locked THEN NULL WHEN reltoastrelid = 0 THEN 0 ELSE pg_total_relation_size(reltoastrelid) END
            AS toast
    FROM known
)
SELECT nspname, relname, heap + indexes + toast, heap, indexes, toast,
    coalesce(nullif(pg_stat_get_live_tuples(oid), 0), CASE WHEN reltuples >= 0 THEN reltuples::int8 END),
    pg_stat_get_dead_tuples(oid),
    greatest(pg_stat_get_last_vacuum_time(oid), pg_stat_get_last_autovacuum_time(oid)),
    greatest(pg_stat_get_last_analyze_time(oid), pg_stat_get_last_autoanalyze_time(oid)),
    (SELECT count(*) FROM known) = {most}
FROM sized ORDER BY 3 DESC NULLS FIRST, 1, 2 LIMIT {limit}
"""
# The index of a partition cannot be dropped alone, and one that is not valid is still being built.
_UNUSED = """
WITH locked AS MATERIALIZED (
    SELECT DISTINCT relation FROM pg_locks JOIN pg_database d ON d.oid = database
    WHERE locktype = 'relation' AND mode = 'AccessExclusiveLock' AND datname = current_database()
), known AS MATERIALIZED (
    SELECT nspname, t.relname AS "table", i.relname, i.oid, i.oid IN (SELECT relation FROM locked) AS is_locked
    FROM pg_index x JOIN pg_class i ON i.oid = indexrelid JOIN pg_class t ON t.oid = indrelid
    JOIN pg_namespace n ON n.oid = t.relnamespace
    WHERE i.relkind = 'i' AND t.relpersistence <> 't' AND NOT i.relispartition AND indisvalid AND NOT indisunique
        AND NOT indisexclusion AND NOT indisreplident AND pg_stat_get_numscans(indexrelid) = 0
        AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid) AND nspname !~ '^pg_'
        AND nspname <> 'information_schema'
    ORDER BY i.relpages DESC, i.oid LIMIT {most}
)
SELECT nspname, "table", relname, CASE WHEN NOT is_locked THEN pg_relation_size(oid) END
FROM known ORDER BY 4 DESC NULLS FIRST, 1, 3 LIMIT {limit}
"""
# A crash, and the first start of a fork, reset the counters of all tables without a time in pg_stat_database.
_SINCE = """
SELECT greatest(d.stats_reset, a.stats_reset) FROM pg_stat_database d, pg_stat_archiver a
WHERE datname = current_database()
"""


def measure(connection: Connection, limit: int) -> Tables:
    """Return what fills the database of a connection."""
    rows = connections.query(connection, _TABLES, most=_MOST, limit=limit)
    unused = connections.query(connection, _UNUSED, most=_MOST, limit=limit)
    since: datetime | None = connections.value(connection, _SINCE)
    return Tables(
        shown(database_of(connection)),
        [Table(shown(schema), shown(name), *rest) for schema, name, *rest, _ in rows],
        [UnusedIndex(shown(schema), shown(table), shown(name), size) for schema, table, name, size in unused],
        since,
        is_complete=not any(is_cut for *_, is_cut in rows),
    )
