"""Roles that log in for a while. Sessions of those with the admin's rights begin as the admin: they own nothing.

What a role owns all the same goes to the admin when the role is dropped. The rights of a read-only one are those of
`read_only_access`.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import closed_databases, connections, ownership, prepared_transactions
from ramet.backends.local.sql.concurrent_changes import change_role
from ramet.backends.local.sql.connections import ADMIN_ROLE, DATABASE, Connection
from ramet.backends.local.sql.raw_names import database_of
from ramet.errors import Error, Failed, Unavailable, Unseen, WrongState
from ramet.model.passwords import Secret
from ramet.model.timestamps import rfc3339

_log = logging.getLogger(__name__)
PREFIX = "ramet_login_"
_MOST_CONNECTIONS = 20
# Whoever takes a transaction ID makes another snapshot due, so a role that cannot be dropped yet is disabled only once.
# Its row has an xmax if a transaction has changed it that is not committed.
_FOUND = """
SELECT oid, rolname, rolcanlogin OR xmax <> 0 FROM pg_authid
WHERE rolname = ANY(%s) AND starts_with(rolname, %s) ORDER BY rolname
"""
_EVERY = "SELECT rolname, rolcanlogin FROM pg_authid WHERE starts_with(rolname, %s)"
# ALTER ROLE takes a transaction ID before it waits for another transaction, and this does not.
_AWAIT = "SELECT FROM pg_authid WHERE oid = %s FOR UPDATE"
_NO_LOGIN = "ALTER ROLE {} NOLOGIN"
_IS_ADMINS = "SELECT pg_has_role(%s::oid, %s::name, 'MEMBER')"
_HAS_IN = """
SELECT DISTINCT dbid FROM pg_shdepend WHERE refclassid = 'pg_authid'::regclass AND refobjid = %s AND dbid <> 0
"""
# A database whose removal was interrupted cannot be entered, and can only be dropped.
_FORGET_IN_INVALID = """
DELETE FROM pg_shdepend s USING pg_database d WHERE d.oid = s.dbid AND d.datconnlimit = -2
AND s.refclassid = 'pg_authid'::regclass AND s.refobjid = %s
"""
_END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usesysid = ANY(%s)"


def create(paths: ServicePaths, role: str, verifier: Secret, until: datetime, *, read_only: bool) -> None:
    """Create a role that can log in until a time, or renew it; may run again.

    Raises Unavailable while a transaction locks what the role is to be a member of, and WrongState without the admin
    or its database.
    """

    def change() -> None:
        with connections.connect(paths) as connection, connection.transaction():
            _create(connection, role, verifier, until, read_only=read_only)

    change_role(paths.service_id, ADMIN_ROLE, change)


def _create(connection: Connection, role: str, verifier: Secret, until: datetime, *, read_only: bool) -> None:
    verb = "ALTER" if connection.execute(_FOUND, ([role], PREFIX)).fetchone() else "CREATE"
    connections.run(
        connection,
        f"{verb} ROLE {{}} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS INHERIT"
        f" CONNECTION LIMIT {_MOST_CONNECTIONS} VALID UNTIL {{until}} PASSWORD {{verifier}}",
        role,
        until=rfc3339(until),
        verifier=verifier.reveal(),
    )
    if read_only:
        connections.run(connection, "ALTER ROLE {} SET tsdb_admin.read_only_role = true", role)
        connections.run(connection, "ALTER ROLE {} SET default_transaction_read_only = on", role)
        connections.run(connection, "GRANT pg_read_all_data, pg_monitor TO {}", role)
    else:
        _give_admins_rights(connection, role)


def _give_admins_rights(connection: Connection, role: str) -> None:
    """Make a role a member of the admin, as which its sessions begin. A tenant may have renamed admin and database."""
    try:
        connections.run(connection, "GRANT {} TO {}", ADMIN_ROLE, role)
        connections.run(connection, "ALTER ROLE {} IN DATABASE {} SET role = {admin}", role, DATABASE, admin=ADMIN_ROLE)
    except psycopg.errors.UndefinedObject as error:
        raise WrongState(
            "ADMIN_MISSING",
            f"The service has no role {ADMIN_ROLE}, whose rights the login would have",
            "Give the role its name back, or create it: ramet service update-password.",
        ) from error
    except psycopg.errors.InvalidCatalogName as error:
        raise WrongState(
            "DATABASE_MISSING",
            f"The service has no database {DATABASE}, in which the login would begin",
            f"Create it (CREATE DATABASE {DATABASE}), or give it its name back.",
        ) from error


def drop(paths: ServicePaths, roles: Sequence[str]) -> None:
    """End the sessions of roles, give what they own to the admin, and drop them. Raises Unavailable when some stay."""
    try:
        _drop(paths, roles)
    except (psycopg.Error, Failed) as error:
        raise Unavailable(
            "ROLE_IN_USE", f"Roles {', '.join(roles)} of service {paths.service_id} were not dropped yet", str(error)
        ) from error


def drop_all(paths: ServicePaths) -> None:
    """Drop all roles of this kind from data that has them of another machine; may run again.

    One that cannot be dropped is named in the log, and cannot log in. Raises Unavailable when one still can.
    """
    try:
        drop(paths, [name for name, _ in _every(paths)])
    except Unseen:
        raise
    except Unavailable as error:
        if any(can_log_in for _, can_log_in in _every(paths)):
            raise
        _log.warning("%s, and cannot log in: %s", error, error.details)


def _every(paths: ServicePaths) -> list[tuple[str, bool]]:
    with connections.connect(paths) as connection:
        return [(name, can_log_in) for name, can_log_in in connection.execute(_EVERY, (PREFIX,)).fetchall()]


def _drop(paths: ServicePaths, roles: Sequence[str]) -> None:
    with connections.connect(paths, lock_timeout="1s") as connection:
        found = connection.execute(_FOUND, (list(roles), PREFIX)).fetchall()
        disabled = [
            (oid, name, _disable(paths, connection, oid, name) if is_due else None) for oid, name, is_due in found
        ]
        connection.execute(_END_SESSIONS, ([oid for oid, *_ in found],))
        refusals = [refusal or _remove(paths, connection, oid, name) for oid, name, refusal in disabled]
    if refused := [each for each in refusals if each is not None]:
        raise refused[0]


def _disable(paths: ServicePaths, connection: Connection, oid: int, name: str) -> Exception | None:
    """Let a role not log in any more; return why that is not possible now.

    Its sessions end before that: one that has changed its own role in a transaction locks the row that this changes.
    Such a transaction that is prepared does not end with its session, and is rolled back.
    """
    try:
        connection.execute(_END_SESSIONS, ([oid],))
        with suppress(psycopg.errors.LockNotAvailable):
            _forbid_login(connection, oid, name)
            return None
        every = connections.databases(connection, with_templates=True)
        held = prepared_transactions.changing_role(connection, oid)
        prepared_transactions.roll_back(paths, connection, every, held)
        _forbid_login(connection, oid, name)
    except (psycopg.Error, Error) as error:
        return error
    return None


def _forbid_login(connection: Connection, oid: int, name: str) -> None:
    connection.execute(_AWAIT, (oid,))
    connections.run(connection, _NO_LOGIN, name)


def _remove(paths: ServicePaths, connection: Connection, oid: int, name: str) -> Exception | None:
    """Drop a role that cannot log in any more; return why that is not possible now.

    It may have something in any database, also in a template: whoever may connect to one can make large objects there.
    Prepared transactions that have made something for it keep it, and are rolled back, as are all of its own, which no
    tenant could end. Their databases are not locked: PostgreSQL does not rename one that has prepared transactions.
    Where one of another role locks its tables no database is entered: each session there keeps the service awake.
    """
    try:
        every = connections.databases(connection, with_templates=True)
        held = prepared_transactions.ending_with(connection, oid)
        prepared_transactions.roll_back(paths, connection, every, held)
        connection.execute(_FORGET_IN_INVALID, (oid,))
        concerned = {database for (database,) in connection.execute(_HAS_IN.encode(), (oid,)).fetchall()}
        if prepared_transactions.lock_owned(connection, oid):
            raise Unavailable("ROLE_LOCKED", f"A prepared transaction locks a table of the role {name}")
        with connection.transaction():
            _disown(connection, oid, name)
        for database in every:
            if database.oid in concerned and database.name != database_of(connection):
                connections.check_unlocked(connection, database.name)
                with closed_databases.entered(paths, database) as inside, inside.transaction():
                    _disown(inside, oid, name)
        connections.run(connection, "DROP ROLE IF EXISTS {}", name)
    except (psycopg.Error, Error) as error:
        return error
    return None


def disable_all(connection: Connection) -> None:
    """Let no role of this kind log in: in a fork, and in data that takes the place of other data."""
    connection.execute(
        "UPDATE pg_authid SET rolcanlogin = false WHERE rolcanlogin AND starts_with(rolname, %s)", (PREFIX,)
    )


def _disown(connection: Connection, oid: int, name: str) -> None:
    """Give what a role owns in a database to the admin, and revoke what was granted to it."""
    ownership.check_unlocked(connection, oid, name)
    if connections.row(connection, _IS_ADMINS, oid, ADMIN_ROLE) == (True,):
        connections.run(connection, "REASSIGN OWNED BY {} TO {}", name, ADMIN_ROLE)
    else:  # code of a role without the admin's rights must not get them
        ownership.take(connection, oid, name, from_admin=False)
    connections.run(connection, "DROP OWNED BY {}", name)
