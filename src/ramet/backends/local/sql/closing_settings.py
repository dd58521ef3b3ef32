"""Settings by which tenants can lock the admin out: they end a session at its start, or admit none to its database."""

from ramet.backends.local.sql.connections import ADMIN_ROLE, DATABASE, Connection, run
from ramet.backends.local.sql.raw_names import shown

_PRELOADS = ("local_preload_libraries", "session_preload_libraries")
_IDLE = "idle_session_timeout"
# A session has a transaction, too, while it begins.
_SHORTEST_MS = {_IDLE: 10_000, "transaction_timeout": 1_000}
# Settings of a database (setrole 0), and of the admin, in one database or in all (setdatabase 0).
_FOUND = """
SELECT s.setdatabase, s.setrole, s.setconfig FROM pg_db_role_setting s
WHERE s.setrole = 0 OR s.setrole = (SELECT oid FROM pg_roles WHERE rolname = %s)
"""
_LIMITED = "UPDATE pg_database SET datconnlimit = -1 WHERE datname = %s AND datconnlimit = 0"
_CLOSED = "UPDATE pg_database SET datallowconn = true WHERE datname = %s AND NOT datallowconn"
_REVOKED = """
SELECT FROM pg_database d, pg_roles r
WHERE d.datname = %s AND r.rolname = %s AND NOT has_database_privilege(r.oid, d.oid, 'CONNECT')
"""
_KEPT = "ARRAY(SELECT s FROM unnest(setconfig) WITH ORDINALITY AS u(s, n) WHERE n = ANY(%s) ORDER BY n)"
_SETTING = "SELECT setting::bigint FROM pg_show_all_settings() WHERE name = %s"
_SAME = "setdatabase = %s AND setrole = %s"


def reset_closing_settings(connection: Connection) -> list[str]:
    """Remove the settings that prevent the admin from logging in, and return them; may run again."""
    removed: list[str] = []
    for database, role, settings in connection.execute(_FOUND, (ADMIN_ROLE,)).fetchall():
        kept = [number for number, setting in enumerate(settings, 1) if not _closes(connection, setting)]
        if len(kept) == len(settings):
            continue
        closing = [setting for number, setting in enumerate(settings, 1) if number not in kept]
        if kept:  # PostgreSQL removes the row rather than store an empty array
            # By number: what they say may be in the encoding of the database in which they were set.
            query = f"UPDATE pg_db_role_setting SET setconfig = {_KEPT} WHERE {_SAME}"  # noqa: S608 - all of it is ours
            connection.execute(query.encode(), (kept, database, role))
        else:
            connection.execute(f"DELETE FROM pg_db_role_setting WHERE {_SAME}".encode(), (database, role))  # noqa: S608
        removed += closing
    for query, setting in ((_LIMITED, "connection_limit=0"), (_CLOSED, "allow_connections=false")):
        if connection.execute(query.encode(), (DATABASE,)).rowcount:
            removed.append(setting)
    if connection.execute(_REVOKED, (DATABASE, ADMIN_ROLE)).rowcount:
        run(connection, "GRANT CONNECT ON DATABASE {} TO {}", DATABASE, ADMIN_ROLE)
        removed.append("connect=revoked")
    return sorted(map(shown, removed))


def _closes(connection: Connection, setting: str) -> bool:
    name, _, value = setting.partition("=")
    if name.lower() in _PRELOADS:
        return bool(value.strip('" '))
    shortest = _SHORTEST_MS.get(name.lower())
    return shortest is not None and 0 < _milliseconds(connection, value) < shortest


def _milliseconds(connection: Connection, value: str) -> int:
    """Return the milliseconds of a timeout with any unit, converted by PostgreSQL: not by a setting that ends us."""
    with connection.transaction():
        connection.execute("SELECT set_config(%s, %s, true)", (_IDLE, value))
        row = connection.execute(_SETTING, (_IDLE,)).fetchone()
        connection.execute("SELECT set_config(%s, '0', true)", (_IDLE,))
    return 0 if row is None else int(row[0])
