"""The roles of a server: the tenants' admin, which is no superuser, and passwords that are unique to a service."""

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections, logins, mover, read_only_access, service_roles, withheld_roles
from ramet.backends.local.sql.closing_settings import reset_closing_settings
from ramet.backends.local.sql.concurrent_changes import change_role
from ramet.backends.local.sql.connections import ADMIN_ROLE, DATABASE, PLATFORM_ROLE, POOLER_ROLE, Connection
from ramet.errors import Unavailable
from ramet.model.passwords import Secret, is_password_of, unusable_verifier
from ramet.model.wal_level import WalLevel

ADMIN_MEMBERSHIPS = ("pg_monitor", "pg_signal_backend", "pg_checkpoint")
# Tenants may make one of PostgreSQL's own roles, whose oids are below FirstNormalObjectId, a member of the admin, or of
# one of its members: on PostgreSQL 15 with CREATEROLE, later with the admin option on it, which an upgrade keeps.
_MEMBERS_OF_ADMIN = """
SELECT r.rolname, a.rolname, coalesce(g.rolname, current_user) FROM pg_auth_members m
JOIN pg_authid r ON r.oid = m.roleid JOIN pg_authid a ON a.oid = m.member LEFT JOIN pg_authid g ON g.oid = m.grantor
WHERE m.member < 16384 AND m.roleid >= 16384 AND pg_has_role(m.roleid, %s::name, 'MEMBER')
"""
_TEMPLATE = "template1"
# Of two sessions of the platform that alter the admin at once, the second one would fail. Tenants cannot lock this row:
# any of their roles can hold an advisory lock, also in a prepared transaction.
_LOCK = "SELECT FROM pg_authid WHERE oid = 10 FOR UPDATE"
# The last one is what timescaledb_pre_restore() and timescaledb_post_restore() set.
_ADMIN_PARAMETERS = ("tsdb_admin.read_only_connection", "tsdb_admin.read_only_role", "timescaledb.restoring")


def bootstrap(paths: ServicePaths, verifier: Secret, extensions: tuple[str, ...], wal_level: WalLevel) -> None:
    """Create the admin, the database and its extensions on a new server; may run again."""
    with connections.connect(paths) as connection:
        withheld_roles.withhold(connection)
        service_roles.ensure_pooler_role(connection)
        _ensure_admin(connection, verifier, wal_level)
        if not _exists(connection, "pg_database", "datname", DATABASE):
            read_only_access.install(paths, _TEMPLATE)
            connections.run(connection, "CREATE DATABASE {} OWNER {}", DATABASE, ADMIN_ROLE)
    with connections.connect(paths, DATABASE, **connections.EXTENSIONS_LOADED) as connection:
        for extension in extensions:
            connections.run(connection, "CREATE EXTENSION IF NOT EXISTS {} SCHEMA public CASCADE", extension)


def rotate(connection: Connection, verifier: Secret, wal_level: WalLevel, *, every: bool = True) -> int:
    """Set the admin's verifier, and with `every` random passwords for all other login roles; return their number.

    Logins of keys end in any case.

    The admin of a fork can log in, whatever tenants of its parent did to the role.
    """
    withheld_roles.withhold(connection)
    service_roles.retire_earlier_roles(connection, wal_level)
    service_roles.ensure_pooler_role(connection)
    logins.disable_all(connection)
    mover.remove(connection)
    _ensure_admin(connection, verifier, wal_level)
    if not every:
        return 1
    # By oid: a name may be in the encoding of the database in which the role was created.
    others = connection.execute(
        "SELECT oid FROM pg_authid WHERE rolname <> ALL(%s) AND (rolcanlogin OR rolpassword IS NOT NULL)",
        ([PLATFORM_ROLE, POOLER_ROLE, ADMIN_ROLE],),
    ).fetchall()
    for (oid,) in others:
        query = "UPDATE pg_authid SET rolpassword = %s WHERE oid = %s"
        connection.execute(query, (unusable_verifier().reveal(), oid))
    return len(others) + 1


def set_admin_verifier(paths: ServicePaths, verifier: Secret, wal_level: WalLevel) -> None:
    """Change the admin's password, and let it log in. Raises Unavailable while a transaction locks the role."""

    def change() -> None:
        with connections.connect(paths) as connection, connection.transaction():
            connection.execute(_LOCK)
            _ensure_admin(connection, verifier, wal_level)
            reset_closing_settings(connection)

    change_role(paths.service_id, ADMIN_ROLE, change)


def replace_verifier(paths: ServicePaths, earlier: Secret, verifier: Secret) -> bool:
    """Change the admin's verifier if it is the earlier one; tell whether it has the new one now. May run again."""
    query = "UPDATE pg_authid SET rolpassword = %s WHERE rolname = %s AND rolpassword = ANY(%s)"
    wanted = (verifier.reveal(), ADMIN_ROLE, [earlier.reveal(), verifier.reveal()])
    with connections.connect_inside(paths) as connection:
        return connection.execute(query, wanted).rowcount == 1


def file_of_verifiers(paths: ServicePaths) -> str:
    """Return the file of pg_authid, below the data directory."""
    with connections.connect(paths) as connection:
        found: str = connections.value(connection, "SELECT pg_relation_filepath('pg_authid')")
        return found


def admin_has(paths: ServicePaths, password: Secret) -> bool | None:
    """Tell whether this is the admin's password; None when the server cannot be asked now."""
    query = "SELECT rolpassword FROM pg_authid WHERE rolname = %s AND rolcanlogin AND rolpassword IS NOT NULL"
    try:
        with connections.connect(paths) as connection:
            row = connection.execute(query, (ADMIN_ROLE,)).fetchone()
    except (psycopg.Error, Unavailable):
        return None
    return row is not None and is_password_of(password, Secret(row[0]))


def set_admin_replication(connection: Connection, wal_level: WalLevel) -> None:
    """Let the admin replicate logically, or take that from it and every role of a tenant; may run again."""
    service_roles.retire_earlier_roles(connection, wal_level)
    connections.run(connection, f"ALTER ROLE {{}} {_replication(wal_level)}", ADMIN_ROLE)


def _replication(wal_level: WalLevel) -> str:
    return "REPLICATION" if wal_level is WalLevel.LOGICAL else "NOREPLICATION"


def _ensure_admin(connection: Connection, verifier: Secret, wal_level: WalLevel) -> None:
    verb = "ALTER" if _exists(connection, "pg_authid", "rolname", ADMIN_ROLE) else "CREATE"
    connections.run(
        connection,
        f"{verb} ROLE {{}} NOSUPERUSER {_replication(wal_level)} NOBYPASSRLS LOGIN CREATEDB CREATEROLE INHERIT"
        " CONNECTION LIMIT -1 VALID UNTIL 'infinity'",
        ADMIN_ROLE,
    )
    # ALTER ROLE would compare the verifier with the empty password first, which takes 9 ms.
    query = "UPDATE pg_authid SET rolpassword = %s WHERE rolname = %s"
    connection.execute(query, (verifier.reveal(), ADMIN_ROLE))
    _grant_memberships(connection)
    # If the admin has marked itself as read-only, it may not be able to undo that.
    connections.run(connection, "ALTER ROLE {} RESET tsdb_admin.read_only_role", ADMIN_ROLE)
    connections.run(connection, f"GRANT SET ON PARAMETER {', '.join(_ADMIN_PARAMETERS)} TO {{}}", ADMIN_ROLE)


def _grant_memberships(connection: Connection) -> None:
    """Make the admin a member of roles of PostgreSQL; where these are members of the admin, they are no longer."""
    grant = f"GRANT {', '.join(ADMIN_MEMBERSHIPS)} TO {{}} WITH ADMIN OPTION"
    try:
        with connection.transaction():
            connections.run(connection, grant, ADMIN_ROLE)
    except psycopg.errors.InvalidGrantOperation:
        for names in connection.execute(_MEMBERS_OF_ADMIN.encode(), (ADMIN_ROLE,)).fetchall():
            connections.run(connection, "REVOKE {} FROM {} GRANTED BY {} CASCADE", *names)
        connections.run(connection, grant, ADMIN_ROLE)


def _exists(connection: Connection, catalog: str, column: str, name: str) -> bool:
    query = f"SELECT 1 FROM {catalog} WHERE {column} = %s"  # noqa: S608 - both are names of ours
    return connection.execute(query.encode(), (name,)).fetchone() is not None
