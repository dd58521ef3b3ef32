"""PostgreSQL's own roles that no tenant may be a member of: with them it could reach the host, or lock Ramet out.

Up to PostgreSQL 15 a role with CREATEROLE may grant any role except superusers. There they are deleted: without them no
role can be a member, and a name that begins with pg_ cannot be created. From 16 on nobody but the platform may grant
them, but an upgrade and the source of a copy can have left members.
"""

import logging

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections, neutralization
from ramet.backends.local.sql.connections import Connection
from ramet.errors import Failed, Unavailable

_log = logging.getLogger(__name__)

HOST_ROLES = ("pg_execute_server_program", "pg_read_server_files", "pg_write_server_files")
# Their members may lock views of PostgreSQL, and so pg_authid and pg_database, which each session reads as it begins.
WITHHELD_ROLES = (*HOST_ROLES, "pg_maintain", "pg_write_all_data")
_LAST_MAJOR_THAT_GRANTS_ANYTHING = 15
# Of these roles in 15 (pg_authid.dat). A membership counts by the oid, also when its role is missing.
_OIDS = [4569, 4570, 4571, 6182]
_NAMES = ["pg_read_server_files", "pg_write_server_files", "pg_execute_server_program", "pg_write_all_data"]
# A GRANT does not lock its role: SHARE waits for those that are open, and fails after lock_timeout.
_DELETE = (
    "LOCK TABLE pg_auth_members IN SHARE MODE",
    "DELETE FROM pg_auth_members WHERE roleid = ANY(%(oids)s) OR member = ANY(%(oids)s)",
    "DELETE FROM pg_authid WHERE oid = ANY(%(oids)s)",
)
# As initdb makes them.
_MAKE = """
INSERT INTO pg_authid (oid, rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
    rolbypassrls, rolconnlimit)
SELECT oid, name, false, true, false, false, false, false, false, -1
FROM unnest(%(oids)s::oid[], %(names)s::text[]) AS missing(oid, name)
"""
_MEMBERS = """
SELECT r.rolname, a.rolname, coalesce(g.rolname, current_user) FROM pg_auth_members m
JOIN pg_authid r ON r.oid = m.roleid JOIN pg_authid a ON a.oid = m.member LEFT JOIN pg_authid g ON g.oid = m.grantor
WHERE r.rolname = ANY(%s)
"""
_LEFT = """
SELECT 1 FROM pg_auth_members m JOIN pg_authid r ON r.oid = m.roleid WHERE r.rolname = ANY(%(names)s)
UNION ALL SELECT 1 FROM pg_auth_members WHERE roleid = ANY(%(oids)s)
UNION ALL SELECT 1 FROM pg_authid WHERE oid = ANY(%(oids)s) AND %(is_deleted)s
LIMIT 1
"""


def withhold(connection: Connection) -> None:
    """Take the roles from all members, and delete them where tenants could grant them; may run again.

    Raises LockNotAvailable while a transaction grants or revokes a role, also a prepared one.
    """
    if not _are_deleted(connection):
        with connection.transaction():
            for names in connection.execute(_MEMBERS.encode(), (list(WITHHELD_ROLES),)).fetchall():
                connections.run(connection, "REVOKE {} FROM {} GRANTED BY {} CASCADE", *names)
    elif _is_left(connection):
        _delete(connection)


def _delete(connection: Connection) -> None:
    with connection.transaction():
        for statement in _DELETE:
            connection.execute(statement.encode(), {"oids": _OIDS})


def withhold_from_serving(paths: ServicePaths, connection: Connection) -> bool:
    """Do the same where something is left to do, while tenants are connected; False: ask again.

    Prepared transactions that change roles or databases are rolled back first: one could lock what is changed, or grant
    a role when it is committed later.
    """
    try:
        if _is_left(connection):
            neutralization.end_prepared(paths, connection, neutralization.inspect(connection), every=False)
            withhold(connection)
            if _are_deleted(connection):
                _delete_again(connection)
    except (psycopg.Error, Failed, Unavailable) as error:
        _log.warning("service %s may keep members of %s: %s", paths.service_id, ", ".join(WITHHELD_ROLES), error)
        return False
    return True


def _delete_again(connection: Connection) -> None:
    """Take the deleted roles from whom a GRANT made a member that had found them, and waited for their deletion.

    Where it is still open, they are made again, as otherwise nothing would be left to do.
    """
    try:
        _delete(connection)
    except psycopg.Error:
        connection.execute(_MAKE, {"oids": _OIDS, "names": _NAMES})
        raise


def _are_deleted(connection: Connection) -> bool:
    """Tell whether tenants could grant the roles, which are deleted because of that."""
    return connection.info.server_version // 10000 <= _LAST_MAJOR_THAT_GRANTS_ANYTHING


def _is_left(connection: Connection) -> bool:
    parameters = {"names": list(WITHHELD_ROLES), "oids": _OIDS, "is_deleted": _are_deleted(connection)}
    return connection.execute(_LEFT, parameters).fetchone() is not None


def withhold_to_upgrade(connection: Connection) -> None:
    """Take the roles from all members, and make those that were deleted again; may run again.

    Only for a server that no tenant can connect to: pg_upgrade fails at privileges, policies and owners of roles that
    are missing, and at members of these.
    """
    with connection.transaction():
        withhold(connection)
        if _are_deleted(connection):
            connection.execute(_MAKE, {"oids": _OIDS, "names": _NAMES})
