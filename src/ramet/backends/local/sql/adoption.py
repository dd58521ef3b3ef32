"""Take over a copy of a server elsewhere, as soon as it can be written to: roles, ownership, and the database's name.

The superuser that the source's initdb made becomes the platform's role: it has the same oid, 10, and owns what
PostgreSQL made. All else that it owned becomes the admin's. No other role stays a superuser.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import (
    closed_databases,
    connections,
    foreign,
    former_superusers,
    handover,
    neutralization,
    operator_roles,
    prepared_transactions,
    raw_names,
    withheld_roles,
)
from ramet.backends.local.sql.connections import ADMIN_ROLE, DATABASE, PLATFORM_ROLE, Connection, Database
from ramet.errors import Failed

_RENAME = "UPDATE pg_authid SET rolname = %s WHERE oid = 10 AND rolname <> %s"
# ALTER DATABASE refuses to rename one with prepared transactions, and some are kept.
_RENAME_DATABASE = "UPDATE pg_database SET datname = %s WHERE datname = %s"
_DEMOTE = """
UPDATE pg_authid SET rolsuper = false, rolreplication = false, rolbypassrls = false
WHERE oid <> 10 AND (rolsuper OR rolreplication OR rolbypassrls) RETURNING rolname
"""
_DEMOTE_SUPERUSERS = "UPDATE pg_authid SET rolsuper = false WHERE oid <> 10 AND rolsuper"
# Without those that are members of the admin: it cannot be a member of them, too.
_ROLES = """
WITH RECURSIVE members AS (
    SELECT member FROM pg_auth_members JOIN pg_authid a ON a.oid = roleid WHERE rolname = %s
    UNION SELECT m.member FROM pg_auth_members m JOIN members ON m.roleid = members.member)
SELECT rolname FROM pg_authid WHERE oid >= 16384 AND rolname <> ALL(%s) AND rolname !~ '^pg_'
    AND oid NOT IN (SELECT member FROM members) ORDER BY 1
"""
# What PUBLIC may do anyway. With privileges that are stored, a database is not `untouched`: each fork enters it.
_TOUCH = "GRANT CONNECT, TEMPORARY ON DATABASE postgres TO PUBLIC"
_IS_UNTOUCHED = "SELECT FROM pg_database WHERE datname = 'postgres' AND datacl IS NULL"
_PUBLIC = "SELECT FROM pg_namespace WHERE nspname = 'public' AND nspowner = 10"
_PROBLEMS = 20
_FIRST_SUPERUSER = 10
_ENDED = "prepared_transactions_rolled_back"
_Result = TypeVar("_Result")


def adopt(paths: ServicePaths, *, neutralize: bool) -> dict[str, Any]:
    """Take over a copy that accepts connections from the platform only; return what was changed. May run again.

    With `neutralize` all prepared transactions are rolled back, otherwise those that prevent it, or that nobody could
    end any more.
    """
    found = foreign.read(paths)
    if found is not None:
        _end_prepared(paths, every=neutralize)
        _take_from_superusers(paths)  # while it can be seen who they were
        _unlocked(paths, partial(_demote, paths))
        problems = _unlocked(paths, partial(_make_admin_owner, paths, found.database))
        foreign.note(paths, {"not_reassigned": problems[:_PROBLEMS], "database": found.database})
        foreign.forget(paths)
    return foreign.adopted(paths)  # also of calls that were interrupted, or whose result may not be recorded yet


def reported(found: dict[str, Any], adopted: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a secured copy with what `adopt` has changed before, if there was anything to adopt."""
    if not adopted:
        return found
    ended = adopted[_ENDED]
    return {
        **found,
        "prepared_transactions": [*ended, *found["prepared_transactions"]],
        _ENDED: len(ended) + found[_ENDED],
        "adopted": adopted,
    }


def check_before(paths: ServicePaths) -> None:
    """Raise Failed for a copy that follows and could not be taken over once it is promoted."""
    found = foreign.read(paths)
    if found is not None:
        if found.database == "postgres":  # such sources are refused now
            raise Failed(
                "DATABASE_UNSUITABLE",
                f"The database postgres of the source cannot become {DATABASE}",
                "Follow the URL of another database of the source, or import this one: ramet service import.",
            )
        with operator_roles.connect(paths) as connection:
            if connections.value(connection, "SELECT pg_is_in_recovery()"):
                _check_database(connection, found.database)


def take_place(paths: ServicePaths) -> None:
    """Take over a copy of a service, which has the platform's roles already. May run again.

    A service on a machine has no other superuser; what only calls itself one may have some.
    """
    if foreign.read(paths) is not None:
        operator_roles.remove(paths)
        with operator_roles.connect(paths) as connection:
            connection.execute(_DEMOTE_SUPERUSERS)
        foreign.forget(paths)


def _end_prepared(paths: ServicePaths, *, every: bool) -> None:
    """Roll prepared transactions back, or only those that change shared catalogs, or that the first superuser prepared.

    A transaction can only be ended by its own role or a superuser, and nobody can be that one here.
    """
    with operator_roles.connect(paths) as connection:
        found = neutralization.inspect(connection)
        wanted = [each for each in found.prepared if every or each.changes_shared or each.is_platforms]
        ending = replace(found, prepared=wanted)
        foreign.note(paths, {_ENDED: neutralization.findings(ending)["prepared_transactions"]})
        neutralization.end_prepared(paths, connection, ending, every=True)


def _unlocked(paths: ServicePaths, act: Callable[[], _Result]) -> _Result:
    """Return the result of `act`. If it waits for a lock in vain, roll all prepared transactions back, and try again.

    Nobody else works in a closed copy, and nobody could log in to end them.
    """
    with suppress(psycopg.errors.LockNotAvailable):
        return act()
    _end_prepared(paths, every=True)
    return act()


def _take_from_superusers(paths: ServicePaths) -> None:
    """Take from tenants what works with a superuser's rights, in each database.

    This rolls prepared transactions back that lock what it needs. All is noted before it is committed.
    """
    with operator_roles.connect(paths) as connection:
        known = connections.databases(connection, with_templates=True)

    def take(database: Database) -> None:
        def note(title: str, names: Iterable[str]) -> None:
            foreign.note(paths, {title: [raw_names.shown(f"{database.name}: {name}") for name in names]})

        with closed_databases.entered(paths, database) as connection:
            locking = prepared_transactions.locking_extensions(connection)
            note(_ENDED, locking)
            prepared_transactions.roll_back_here(connection, locking)
            with connection.transaction():
                for title, names in former_superusers.take(connection).items():
                    note(title, names)

    for database in known:
        if database.name != "template0" and not database.is_invalid:
            _unlocked(paths, partial(take, database))


def _demote(paths: ServicePaths) -> None:
    """Give roles the rights that they have here; note the superusers, and the parameters that were revoked."""
    with operator_roles.connect(paths) as connection, connection.transaction():
        superusers = [raw_names.shown(name) for (name,) in connection.execute(_DEMOTE).fetchall()]
        withheld_roles.withhold(connection)
        parameters = former_superusers.revoke_parameters(connection)
        _ensure_admin(connection)
        for (role,) in connection.execute(_ROLES, (ADMIN_ROLE, [ADMIN_ROLE, PLATFORM_ROLE])).fetchall():
            connections.run(connection, "GRANT {} TO {} WITH ADMIN OPTION", role, ADMIN_ROLE)
        if connection.execute(_IS_UNTOUCHED).fetchone() is not None:
            connection.execute(_TOUCH)
        connection.execute(_RENAME, (PLATFORM_ROLE, PLATFORM_ROLE))
        foreign.note(paths, {"superusers_demoted": superusers, "parameters_revoked": parameters})


def _ensure_admin(connection: Connection) -> None:
    if connection.execute("SELECT FROM pg_authid WHERE rolname = %s", (ADMIN_ROLE,)).fetchone() is None:
        connections.run(connection, "CREATE ROLE {} NOLOGIN CREATEDB CREATEROLE", ADMIN_ROLE)


def _make_admin_owner(paths: ServicePaths, tenants: str) -> list[str]:
    """Make the admin the owner of all databases and of what is in them, and rename the tenants' own.

    The databases that every server has become the platform's: their owner could close them, or change their settings.
    Return what could not be given to the admin.
    """
    with operator_roles.connect(paths) as connection:
        known = connections.databases(connection, with_templates=True)
    problems: list[str] = []
    for database in filter(_is_tenants, known):
        if not database.is_invalid:
            with closed_databases.entered(paths, database) as connection:
                connection.execute("SET statement_timeout = 0")
                problems += handover.give_away(connection, _FIRST_SUPERUSER)
                if connection.execute(_PUBLIC).fetchone() is not None:
                    connections.run(connection, "ALTER SCHEMA public OWNER TO pg_database_owner")
    with operator_roles.connect(paths) as connection:
        for database in known:
            owner = ADMIN_ROLE if _is_tenants(database) else PLATFORM_ROLE
            connections.run(connection, "ALTER DATABASE {} OWNER TO {}", database.name, owner)
        if _check_database(connection, tenants) and tenants != "postgres":
            connection.execute(_RENAME_DATABASE, (DATABASE, tenants))
    return problems


def _is_tenants(database: Database) -> bool:
    return not database.is_template and database.name != "postgres"


def _check_database(connection: Connection, name: str) -> bool:
    """Tell whether a database is to be renamed. Raises Failed when there is one with the name that it is to have."""
    names = {found for (found,) in connection.execute("SELECT datname FROM pg_database").fetchall()}
    if name == DATABASE or name not in names:
        return False
    if DATABASE in names:
        raise Failed("DATABASE_EXISTS", f"There is a database {DATABASE} beside {name}", "Rename it in the source.")
    return True
