"""The role that another Ramet streams a service as, while the service moves there.

Its name and oid are in the range that PostgreSQL reserves, as those of the pooler's role: no tenant can create, alter,
rename or drop it. It owns nothing. A physical copy has it too, so whoever takes a copy over removes it.

Beside it there is the superuser that CloudNativePG enters its servers as: a standby can only have the roles of its
source. It has no password, so nobody can log in as it.
"""

from ramet.backends.local.sql.connections import Connection
from ramet.model.passwords import Secret

MOVER_ROLE = "pg_ramet_mover"
OPERATOR_ROLE = "postgres"
# Below 12000, FirstUnpinnedObjectId, beside that of the pooler's role.
_MOVER_OID, OPERATOR_OID = 11901, 11902
_MAKE = """
INSERT INTO pg_authid (oid, rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
    rolbypassrls, rolconnlimit)
SELECT %s, %s, false, true, false, false, true, true, false, 8 WHERE NOT EXISTS (SELECT FROM pg_authid WHERE oid = %s)
"""
_MAKE_OPERATOR = """
INSERT INTO pg_authid (oid, rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
    rolbypassrls, rolconnlimit)
SELECT %s, %s, true, true, true, true, true, true, true, -1 WHERE NOT EXISTS (SELECT FROM pg_authid WHERE rolname = %s)
"""
_COPY_WAITS = "SELECT FROM pg_stat_progress_basebackup WHERE phase = 'waiting for checkpoint to finish'"
_LET_IN = "UPDATE pg_authid SET rolreplication = true, rolpassword = %s WHERE oid = %s"
_REMOVE = (
    "DELETE FROM pg_auth_members WHERE roleid = ANY(%(oids)s) OR member = ANY(%(oids)s)",
    "DELETE FROM pg_db_role_setting WHERE setrole = ANY(%(oids)s)",
    "DELETE FROM pg_authid WHERE oid = ANY(%(oids)s)",
)


def let_in(connection: Connection, verifier: Secret) -> None:
    """Create both roles, and let the mover log in with the password of a verifier. May run again."""
    connection.execute(_MAKE, (_MOVER_OID, MOVER_ROLE, _MOVER_OID))
    connection.execute(_MAKE_OPERATOR, (OPERATOR_OID, OPERATOR_ROLE, OPERATOR_ROLE))
    connection.execute(_LET_IN, (verifier.reveal(), _MOVER_OID))


def hasten(connection: Connection) -> None:
    """Complete the checkpoint that a copy waits for: spread over time, as some ask for it, it takes minutes."""
    if connection.execute(_COPY_WAITS).fetchone() is not None:
        connection.execute("CHECKPOINT")


def remove(connection: Connection) -> None:
    """Drop both roles, if they are there."""
    for statement in _REMOVE:
        connection.execute(statement.encode(), {"oids": [_MOVER_OID, OPERATOR_OID]})
