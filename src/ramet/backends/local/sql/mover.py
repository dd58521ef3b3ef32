"""The role that another Ramet streams a service as, while the service moves there.

Its name and oid are in the range that PostgreSQL reserves, as those of the pooler's role: no tenant can create, alter,
rename or drop it. It owns nothing. A physical copy has it too, so whoever takes a copy over removes it.
"""

from ramet.backends.local.sql.connections import Connection
from ramet.model.passwords import Secret

MOVER_ROLE = "pg_ramet_mover"
# Below 12000, FirstUnpinnedObjectId, beside that of the pooler's role.
_MOVER_OID = 11901
_MAKE = """
INSERT INTO pg_authid (oid, rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
    rolbypassrls, rolconnlimit)
SELECT %s, %s, false, true, false, false, true, true, false, 8 WHERE NOT EXISTS (SELECT FROM pg_authid WHERE oid = %s)
"""
_LET_IN = "UPDATE pg_authid SET rolreplication = true, rolpassword = %s WHERE oid = %s"
_REMOVE = (
    "DELETE FROM pg_auth_members WHERE roleid = %(oid)s OR member = %(oid)s",
    "DELETE FROM pg_db_role_setting WHERE setrole = %(oid)s",
    "DELETE FROM pg_authid WHERE oid = %(oid)s",
)


def let_in(connection: Connection, verifier: Secret) -> None:
    """Create the role, and let it log in with the password of a verifier. May run again."""
    connection.execute(_MAKE, (_MOVER_OID, MOVER_ROLE, _MOVER_OID))
    connection.execute(_LET_IN, (verifier.reveal(), _MOVER_OID))


def remove(connection: Connection) -> None:
    """Drop the role, if it is there."""
    for statement in _REMOVE:
        connection.execute(statement.encode(), {"oid": _MOVER_OID})
