"""The roles of CloudNativePG in a copy of a service that ran on Kubernetes; they go when it has moved to a machine.

There the operator's superuser, postgres, may be the one that initdb made, and the platform's role another superuser.
Here initdb's is the platform's, with the oid 10, and there is no other. What any of the others owns becomes the
platform's.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import PLATFORM_ROLE, Connection
from ramet.backends.local.sql.mover import OPERATOR_ROLE

_LOCK_TIMEOUT = "10s"
_FORMER_ROLE = "pg_ramet_former"
# The last two are by what such a copy is recognized.
_ROLES = ("streaming_replica", "cnpg_metrics_exporter", "cnpg_pooler_pgbouncer", OPERATOR_ROLE, _FORMER_ROLE)
_IS_THERE = "SELECT FROM pg_authid WHERE rolname = %s AND rolsuper AND (oid = 10 OR oid >= 16384)"
_IS_FIRST = "SELECT FROM pg_authid WHERE rolname = %s AND oid = 10"
_SET_ASIDE = "UPDATE pg_authid SET rolname = %s WHERE rolname = %s AND oid <> 10"
_RENAME = "UPDATE pg_authid SET rolname = %s WHERE oid = 10 AND rolname <> %s"
_FOUND = """
SELECT rolname FROM pg_authid WHERE rolname = ANY(%s) AND oid >= 16384 ORDER BY array_position(%s, rolname::text)
"""
_GRANTS = "UPDATE pg_auth_members SET grantor = 10 WHERE grantor = (SELECT oid FROM pg_authid WHERE rolname = %s)"
_DATABASES = "SELECT datname FROM pg_database WHERE datallowconn ORDER BY datname"


def remove(paths: ServicePaths) -> None:
    """Remove the operator's roles, where there are such, and let initdb's superuser be the platform's.

    May run again.
    """
    with connect(paths) as connection, connection.transaction():
        is_there = connection.execute(_IS_THERE, (OPERATOR_ROLE,)).fetchone() is not None
        is_begun = connection.execute(_IS_THERE, (_FORMER_ROLE,)).fetchone() is not None
        if not is_there and not is_begun:
            return
        if connection.execute(_IS_FIRST, (OPERATOR_ROLE,)).fetchone() is not None:
            connection.execute(_SET_ASIDE, (_FORMER_ROLE, PLATFORM_ROLE))
            connection.execute(_RENAME, (PLATFORM_ROLE, PLATFORM_ROLE))
    with connect(paths) as connection:
        roles = [name for (name,) in connection.execute(_FOUND, (list(_ROLES), list(_ROLES))).fetchall()]
        databases = [name for (name,) in connection.execute(_DATABASES).fetchall()]
    for database in databases:
        with connect(paths, database) as connection:
            _give_away(connection, roles)
    with connect(paths) as connection:
        for role in roles:
            connection.execute(_GRANTS, (role,))
            try:
                connections.run(connection, "DROP ROLE {}", role)
            except psycopg.errors.DependentObjectsStillExist:  # in a database that lets nobody in
                connections.run(connection, "ALTER ROLE {} NOSUPERUSER NOREPLICATION NOLOGIN", role)


def _give_away(connection: Connection, roles: Sequence[str]) -> None:
    for role in roles:
        connections.run(connection, "REASSIGN OWNED BY {} TO {}", role, PLATFORM_ROLE)
        connections.run(connection, "DROP OWNED BY {}", role)


def connect(paths: ServicePaths, database: str = "postgres") -> AbstractContextManager[Connection]:
    """Open a connection for statements that take long, and wait for locks."""
    return connections.connect(paths, database, statement_timeout="0", lock_timeout=_LOCK_TIMEOUT)
