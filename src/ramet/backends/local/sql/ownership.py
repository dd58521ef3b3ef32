"""Reassign the objects that a role owns, without giving more privileges to the role or to its code.

Views, rules, indexes and materialized views use the privileges of their owner. The new owner is therefore a role
without login that has the privileges of the old one, and of which the admin is a member. Only the objects of a member
of the admin become the admin's: their code could use the admin's privileges before.
"""

import math
import secrets
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TypeVar

from ramet.backends.local.sql import connections, raw_names
from ramet.backends.local.sql.connections import ADMIN_ROLE, Connection
from ramet.errors import Unavailable

_Found = TypeVar("_Found")

_MEMBERSHIP_OPTIONS_SINCE = 16
_DATABASES = "SELECT datname FROM pg_database WHERE datdba = %s"
_IS_HERE = """
SELECT FROM pg_shdepend WHERE refclassid = 'pg_authid'::regclass AND refobjid = %s AND deptype = 'o'
AND dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())) LIMIT 1
"""
_READABLE = """
SELECT format('TABLE %%I.%%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relowner = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
UNION ALL SELECT format('SEQUENCE %%I.%%I', n.nspname, c.relname) FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relowner = %s AND c.relkind = 'S'
UNION ALL SELECT format('SCHEMA %%I', nspname) FROM pg_namespace WHERE nspowner = %s
"""
# Only what is held for long: a table that is in use has always some reader.
_LOCKED = """
SELECT FROM pg_shdepend s JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database()
JOIN pg_locks l ON l.locktype = 'relation' AND l.granted AND l.database = s.dbid AND l.relation = s.objid
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid = %s AND s.classid = 'pg_class'::regclass AND s.deptype = 'o'
AND (l.pid IS NULL OR a.xact_start < clock_timestamp() - %s) LIMIT 1
"""
_LONG = timedelta(seconds=10)
# The role may still call these.
_WITH_OWNERS_RIGHTS = "SELECT oid::regprocedure::text FROM pg_proc WHERE proowner = %s AND prosecdef"


def take(connection: Connection, oid: int, name: str, *, from_admin: bool, deadline: float = math.inf) -> None:
    """Reassign a role's objects in the database of a connection, in a transaction, and let the role read them.

    `from_admin` says that the role is a member of the admin. Raises Unavailable when it goes on after the deadline.
    """
    for (database,) in in_time(connection.execute(_DATABASES, (oid,)).fetchall(), deadline):
        connections.run(connection, "ALTER DATABASE {} OWNER TO {}", database, ADMIN_ROLE)
    if connection.execute(_IS_HERE, (oid,)).fetchone() is None:
        return
    check_unlocked(connection, oid, name)
    for (function,) in in_time(connection.execute(_WITH_OWNERS_RIGHTS, (oid,)).fetchall(), deadline):
        connection.execute(raw_names.encoded(f"ALTER ROUTINE {function} SECURITY INVOKER"))
    readable = [row[0] for row in connection.execute(_READABLE, (oid, oid, oid)).fetchall()]
    owner = ADMIN_ROLE if from_admin else _make_owner(connection, name)
    connections.run(connection, "REASSIGN OWNED BY {} TO {}", name, owner)
    for thing in in_time(readable, deadline):
        right = "USAGE" if thing.startswith("SCHEMA ") else "SELECT"
        connections.run(connection, f"GRANT {right} ON {thing.replace('{', '{{').replace('}', '}}')} TO {{}}", name)


def check_unlocked(connection: Connection, oid: int, name: str) -> None:
    """Raise Unavailable if a transaction has locked for long what a role owns in the database of a connection.

    An attempt to change the owner of a locked table takes a transaction ID although it fails, which makes another
    snapshot due.
    """
    if connection.execute(_LOCKED, (oid, _LONG)).fetchone() is not None:
        raise Unavailable(
            "ROLE_LOCKED",
            f"A transaction locks what the role {raw_names.shown(name)} owns",
            "End that transaction; pg_prepared_xacts lists those that are prepared.",
        )


def in_time(found: Sequence[_Found], deadline: float) -> Iterator[_Found]:
    """Yield what statements are made for; raises Unavailable after the deadline, a time of the monotonic clock.

    Each statement may wait for another lock: the limits of the session are for single ones.
    """
    for one in found:
        if time.monotonic() >= deadline:
            raise Unavailable("ROLE_LOCKED", "Changing what depends on the role takes too long")
        yield one


def _make_owner(connection: Connection, name: str) -> str:
    """Create a role that has the privileges of another one, with an unpredictable name."""
    owner = f"ramet_owner_{secrets.token_hex(8)}"
    has_options = connection.info.server_version // 10000 >= _MEMBERSHIP_OPTIONS_SINCE
    connections.run(connection, "CREATE ROLE {} NOLOGIN", owner)
    connections.run(connection, "GRANT {} TO {}" + " WITH INHERIT TRUE, SET FALSE" * has_options, name, owner)
    connections.run(connection, "GRANT {} TO {} WITH ADMIN OPTION", owner, ADMIN_ROLE)
    return owner
