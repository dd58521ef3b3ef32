"""The roles that poolers and replicas log in as: over the private socket only, where the host's user is the password.

One reads verifiers and writes nothing; the other streams WAL. Neither is a superuser, and tenants know no way in.
"""

from ramet.backends.local import sql
from ramet.backends.local.paths import ServicePaths
from ramet.backends.local.sql import POOLER_ROLE, REPLICA_ROLE, Connection


def ensure_roles(paths: ServicePaths) -> None:
    """Make the roles on a server that follows nobody, or put right what tenants did to them; may run again."""
    with sql.connect(paths) as connection:
        if not _is_sound(connection, POOLER_ROLE):
            _ensure(connection, POOLER_ROLE, "NOREPLICATION")
            sql.run(connection, "GRANT pg_read_all_data TO {}", POOLER_ROLE)
            sql.run(connection, "ALTER ROLE {} SET default_transaction_read_only = on", POOLER_ROLE)
        if not _is_sound(connection, REPLICA_ROLE):
            _ensure(connection, REPLICA_ROLE, "REPLICATION")


def _is_sound(connection: Connection, role: str) -> bool:
    row = connection.execute(
        "SELECT rolcanlogin AND rolinherit AND rolconnlimit = -1 AND coalesce(rolvaliduntil, 'infinity') = 'infinity'"
        " AND (rolreplication OR pg_has_role(oid, 'pg_read_all_data', 'USAGE')) FROM pg_roles WHERE rolname = %s",
        (role,),
    ).fetchone()
    return row == (True,)


def _ensure(connection: Connection, role: str, replication: str) -> None:
    known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
    verb = "CREATE" if known is None else "ALTER"
    sql.run(
        connection,
        f"{verb} ROLE {{}} NOSUPERUSER {replication} LOGIN INHERIT CONNECTION LIMIT -1 VALID UNTIL 'infinity'"
        " PASSWORD NULL",
        role,
    )
