"""Read what a standby depends on in a source: by SQL in the database that its address names, and by replication."""

import re
from typing import Any

import psycopg

from ramet.backends.interface.followers import UpstreamFacts
from ramet.backends.interface.sources import SourceAddress
from ramet.backends.local.sources.relay import PORT
from ramet.backends.local.sources.sources import connected, words_of
from ramet.backends.local.sql.connections import ADMIN_ROLE, PLATFORM_ROLE, POOLER_ROLE, Connection, rows
from ramet.backends.local.sql.mover import MOVER_ROLE
from ramet.errors import Invalid
from ramet.model.passwords import Secret

_OLDEST_MAJOR = 15
_MACHINE = re.compile(r" on ([A-Za-z0-9_]+?)-")
_BASIC = """
SELECT current_setting('server_version'), current_setting('server_version_num')::int / 10000, version(),
    (SELECT rolname FROM pg_roles WHERE oid = 10), (SELECT system_identifier::text FROM pg_control_system()),
    (SELECT database_block_size FROM pg_control_init()), current_database(),
    (SELECT datcollversion FROM pg_database WHERE datname = current_database() AND datlocprovider = 'c'),
    (SELECT datcollversion FROM pg_database WHERE datname = current_database() AND datlocprovider = 'i'),
    (SELECT rolcanlogin FROM pg_roles WHERE oid = 10), current_setting('server_encoding')
"""
_SETTINGS = (
    "full_page_writes", "max_connections", "max_locks_per_transaction", "max_prepared_transactions",
    "max_slot_wal_keep_size", "max_wal_senders", "max_worker_processes", "wal_compression", "wal_level",
    "wal_segment_size",
)  # fmt: skip
_SETTING_VALUES = """
SELECT name, CASE WHEN unit = 'MB' OR unit IS NULL OR name = 'wal_segment_size' THEN setting ELSE setting || unit END
FROM pg_show_all_settings() WHERE name = ANY(%s)
"""
# Of the database by which the platform enters a copy it counts whether that is possible.
_DATABASES = """
SELECT datname FROM pg_database
WHERE CASE datname WHEN 'postgres' THEN datallowconn AND datconnlimit <> -2 ELSE NOT datistemplate END
ORDER BY datname <> current_database(), datname
"""
_SIZE = """
SELECT sum(CASE WHEN has_database_privilege(oid, 'CONNECT') THEN pg_database_size(oid) ELSE 0 END)::int8
FROM pg_database
"""
_TABLESPACES = "SELECT spcname FROM pg_tablespace WHERE spcname NOT IN ('pg_default', 'pg_global') ORDER BY 1"
_SLOTS = "SELECT slot_name::text FROM pg_replication_slots WHERE slot_type = 'physical' ORDER BY 1"
_FREE_SLOTS = """
SELECT current_setting('max_replication_slots')::int - count(*)::int FROM pg_replication_slots
"""
_ORIGINS = "SELECT count(*) FROM pg_replication_origin"
# A server that has loaded TimescaleDB has its settings in each database, also in those without the extension.
_EXTENSIONS = """
SELECT extname::text FROM pg_extension WHERE extname <> 'plpgsql'
UNION SELECT 'timescaledb' FROM pg_show_all_settings() WHERE name = 'timescaledb.max_background_workers' ORDER BY 1
"""
# No superuser of a source may log in here, and the admin has to.
_RESERVED = """
SELECT rolname FROM pg_roles WHERE rolname = ANY(%s) AND oid <> 10 OR rolname = %s AND rolsuper ORDER BY 1
"""


def examine(source: SourceAddress, password: Secret) -> UpstreamFacts:
    """Read what a standby of a source depends on. Raises Invalid when it cannot be read."""
    with connected(source, password) as (connection, directory):
        facts = _read(connection)
        problem = _replication_problem(source, password, directory)
    return UpstreamFacts(**facts, replication_problem=problem)


def _read(connection: Connection) -> dict[str, Any]:
    version, major, words, bootstrap, identifier, block_bytes, database, *others = rows(connection, _BASIC)[0]
    if major < _OLDEST_MAJOR:
        raise Invalid(
            "SOURCE_TOO_OLD",
            f"The source is PostgreSQL {version}, and a service can follow {_OLDEST_MAJOR} or later",
            "Import it instead: ramet service import.",
        )
    machine = _MACHINE.search(words)
    names = [name for (name,) in rows(connection, _DATABASES)]
    # The role of a move, or Ramet's own as the first superuser: the source is a service, which has Ramet's roles.
    is_service = bootstrap == PLATFORM_ROLE or connection.info.user == MOVER_ROLE
    reserved_names = [] if is_service else [PLATFORM_ROLE, POOLER_ROLE]
    reserved = connection.execute(_RESERVED, (reserved_names, ADMIN_ROLE)).fetchall()
    return {
        "version": version,
        "major": major,
        "machine": "" if machine is None else machine[1],
        "system_identifier": identifier,
        "bootstrap_role": bootstrap,
        "size_bytes": int(rows(connection, _SIZE)[0][0]),
        "settings": dict(connection.execute(_SETTING_VALUES, (list(_SETTINGS),)).fetchall()),
        "block_bytes": block_bytes,
        "databases": tuple(sorted(names, key=lambda name: name != database)),
        "tablespaces": tuple(name for (name,) in rows(connection, _TABLESPACES)),
        "extensions": tuple(name for (name,) in rows(connection, _EXTENSIONS)),
        "reserved_roles": tuple(name for (name,) in reserved),
        **dict(zip(("collation_version", "icu_version", "can_enter", "encoding"), others, strict=True)),
        "slots": tuple(name for (name,) in rows(connection, _SLOTS)),
        "free_slots": rows(connection, _FREE_SLOTS)[0][0],
        "origins": rows(connection, _ORIGINS)[0][0],
    }


def _replication_problem(source: SourceAddress, password: Secret, directory: str) -> str | None:
    """Say why the role cannot stream; None when it can."""
    try:
        with psycopg.connect(
            host=directory, port=PORT, user=source.user, password=password.reveal(), replication="true",
            sslmode="disable", gssencmode="disable", passfile="/nonexistent", application_name="ramet follow",
            autocommit=True,
        ) as connection:  # fmt: skip
            connection.execute("IDENTIFY_SYSTEM")
    except psycopg.Error as error:
        return words_of(error)
    return None
