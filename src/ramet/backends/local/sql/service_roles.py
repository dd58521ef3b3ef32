"""The role that poolers log in as, and the removal of roles that earlier releases created.

Replicas stream as the platform's own role, which no tenant can alter. A pooler is exposed to clients, so it logs in as
a role that can only read verifiers. Its name and oid are in the range that PostgreSQL reserves: no role can create,
alter or rename a role called `pg_...`, and no role can drop one with a pinned oid, not even a tenant with CREATEROLE on
PostgreSQL 15, who may drop all other roles except superusers. There such a tenant may also become a member of it, and
as this role give it settings with which poolers cannot log in any more: `ensure_pooler_role` undoes that.
"""

import contextlib

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import PLATFORM_ROLE, POOLER_ROLE, Connection
from ramet.backends.local.sql.mover import MOVER_ROLE
from ramet.model.wal_level import WalLevel

# Below 12000, FirstUnpinnedObjectId, and not among the oids that PostgreSQL's own roles have (pg_authid.dat).
_POOLER_OID = 11900
_MAKE_POOLER = """
INSERT INTO pg_authid (oid, rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
    rolbypassrls, rolconnlimit)
SELECT %s, %s, false, true, false, false, true, false, false, -1 WHERE NOT EXISTS (SELECT FROM pg_authid WHERE oid = %s)
"""
# From PostgreSQL 16 on tenants cannot make any of these changes.
_UNDO_CHANGES = (
    "DELETE FROM pg_auth_members WHERE roleid = %s",
    "DELETE FROM pg_db_role_setting WHERE setrole = %s",
    "UPDATE pg_authid SET rolpassword = NULL WHERE rolpassword IS NOT NULL AND oid = %s",
)
_READS_VERIFIERS = "SELECT pg_has_role(%s::name, 'pg_read_all_data', 'USAGE')"
# Where tenants can set REPLICATION, from PostgreSQL 16 on, the creator of a role is a member with the admin option; and
# their grants have another grantor than the platform's role.
_MADE_BY_EARLIER_RELEASES = """
SELECT rolname FROM pg_authid a WHERE rolname = 'ramet_replica' AND rolreplication
    AND NOT EXISTS (SELECT FROM pg_auth_members m WHERE m.roleid = a.oid AND m.admin_option)
OR rolname = 'ramet_pooler' AND EXISTS (SELECT FROM pg_auth_members m
    WHERE m.member = a.oid AND m.roleid = 'pg_read_all_data'::regrole AND m.grantor = 10)
"""


def ensure_pooler_role(connection: Connection) -> None:
    """Create the role of poolers, or undo what tenants did to it, and let it read verifiers; may run again."""
    connection.execute(_MAKE_POOLER, (_POOLER_OID, POOLER_ROLE, _POOLER_OID))
    for statement in _UNDO_CHANGES:
        connection.execute(statement.encode(), (_POOLER_OID,))
    if connection.execute(_READS_VERIFIERS, (POOLER_ROLE,)).fetchone() != (True,):
        connections.run(connection, "GRANT pg_read_all_data TO {}", POOLER_ROLE)


def ensure_pooler_role_of(paths: ServicePaths) -> None:
    """Create the role of poolers on a primary; may run again. Raises Unavailable."""
    with connections.connect(paths) as connection:
        ensure_pooler_role(connection)


def retire_earlier_roles(connection: Connection, wal_level: WalLevel) -> None:
    """Revoke the privileges of the roles of earlier releases, and drop them unless tenants use them.

    A tenant may have created a role of that name before. Without REPLICATION it is an ordinary role. No other role of
    tenants keeps that either, unless they replicate logically.
    """
    found = connection.execute(_MADE_BY_EARLIER_RELEASES).fetchall()
    connection.execute(
        "UPDATE pg_authid SET rolreplication = false WHERE rolreplication AND rolname <> ALL(%s)"
        " AND (%s OR rolname = ANY(%s))",
        ([PLATFORM_ROLE, MOVER_ROLE], wal_level is WalLevel.REPLICA, [role for (role,) in found]),
    )
    for (role,) in found:
        if connection.execute(_READS_VERIFIERS, (role,)).fetchone() == (True,):
            connections.run(connection, "REVOKE pg_read_all_data FROM {}", role)
        with contextlib.suppress(psycopg.errors.DependentObjectsStillExist), connection.transaction():
            connections.run(connection, "DROP ROLE {}", role)
