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
    neutralization,
    operator_roles,
    prepared_transactions,
    raw_names,
    roles,
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
_EXPEL = """
DELETE FROM pg_auth_members WHERE roleid IN (SELECT oid FROM pg_authid WHERE rolname = ANY(%s))
"""
# Without those that are members of the admin: it cannot be a member of them, too.
_ROLES = """
WITH RECURSIVE members AS (
    SELECT member FROM pg_auth_members JOIN pg_authid a ON a.oid = roleid WHERE rolname = %s
    UNION SELECT m.member FROM pg_auth_members m JOIN members ON m.roleid = members.member)
SELECT rolname FROM pg_authid WHERE oid >= 16384 AND rolname <> ALL(%s) AND rolname !~ '^pg_'
    AND oid NOT IN (SELECT member FROM members) ORDER BY 1
"""
# Objects of the source's superuser, except those of extensions, those that belong to another object, and functions of
# casts and operators that queries of the platform use.
_OWNED = f"""
WITH owned AS (
    SELECT 'pg_class'::regclass AS catalog, oid FROM pg_class
        WHERE relowner = 10 AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
    UNION ALL SELECT 'pg_proc'::regclass, oid FROM pg_proc WHERE proowner = 10
        AND oid NOT IN {former_superusers.CALLED} AND oid IS DISTINCT FROM {former_superusers.BEGIN_SESSION}
    UNION ALL SELECT 'pg_type'::regclass, oid FROM pg_type WHERE typowner = 10 AND (typtype IN ('e','d','r')
        OR typtype = 'c' AND EXISTS (SELECT FROM pg_class WHERE pg_class.oid = typrelid AND relkind = 'c'))
    UNION ALL SELECT 'pg_namespace'::regclass, oid FROM pg_namespace WHERE nspowner = 10
    UNION ALL SELECT 'pg_collation'::regclass, oid FROM pg_collation WHERE collowner = 10
    UNION ALL SELECT 'pg_conversion'::regclass, oid FROM pg_conversion WHERE conowner = 10
    UNION ALL SELECT 'pg_operator'::regclass, oid FROM pg_operator WHERE oprowner = 10
    UNION ALL SELECT 'pg_opclass'::regclass, oid FROM pg_opclass WHERE opcowner = 10
    UNION ALL SELECT 'pg_opfamily'::regclass, oid FROM pg_opfamily WHERE opfowner = 10
    UNION ALL SELECT 'pg_ts_dict'::regclass, oid FROM pg_ts_dict WHERE dictowner = 10
    UNION ALL SELECT 'pg_ts_config'::regclass, oid FROM pg_ts_config WHERE cfgowner = 10
    UNION ALL SELECT 'pg_statistic_ext'::regclass, oid FROM pg_statistic_ext WHERE stxowner = 10
    UNION ALL SELECT 'pg_publication'::regclass, oid FROM pg_publication WHERE pubowner = 10
    UNION ALL SELECT 'pg_largeobject'::regclass, oid FROM pg_largeobject_metadata WHERE lomowner = 10
)
SELECT i.type, i.identity FROM owned o, pg_identify_object(o.catalog, o.oid, 0) i
WHERE o.oid >= 16384 AND i.type <> 'toast table' AND i.schema IS DISTINCT FROM 'pg_toast' AND NOT EXISTS (
    SELECT FROM pg_depend d WHERE d.classid = o.catalog AND d.objid = o.oid AND d.deptype IN ('e', 'a', 'i')
    AND (d.deptype <> 'a' OR d.refobjsubid <> 0 OR d.refclassid = 'pg_extension'::regclass))
"""  # noqa: S608 - all of it is ours
# What PUBLIC may do anyway. With privileges that are stored, a database is not `untouched`: each fork enters it.
_TOUCH = "GRANT CONNECT, TEMPORARY ON DATABASE postgres TO PUBLIC"
_IS_UNTOUCHED = "SELECT FROM pg_database WHERE datname = 'postgres' AND datacl IS NULL"
_PUBLIC = "SELECT FROM pg_namespace WHERE nspname = 'public' AND nspowner = 10"
_WORDS = {"statistics object": "statistics"}
_PROBLEMS = 20
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
        connection.execute(_EXPEL, (list(roles.HOST_ROLES),))
        parameters = former_superusers.revoke_parameters(connection)
        roles.lock_host_roles_away(connection)
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

    Return what could not be given to it.
    """
    with operator_roles.connect(paths) as connection:
        known = [each for each in connections.databases(connection) if each.is_open and each.name != "postgres"]
    problems: list[str] = []
    for database in known:
        with operator_roles.connect(paths, database.name) as connection:
            problems += _give_away(connection)
    with operator_roles.connect(paths) as connection:
        for database in known:
            connections.run(connection, "ALTER DATABASE {} OWNER TO {}", database.name, ADMIN_ROLE)
        if _check_database(connection, tenants) and tenants != "postgres":
            connection.execute(_RENAME_DATABASE, (DATABASE, tenants))
    return problems


def _give_away(connection: Connection) -> list[str]:
    """Make the admin the owner of what the source's superuser owned; return what could not be."""
    problems = []
    for kind, identity in connection.execute(_OWNED).fetchall():
        try:
            connection.execute(raw_names.encoded(f'ALTER {_WORDS.get(kind, kind)} {identity} OWNER TO "{ADMIN_ROLE}"'))
        except psycopg.errors.LockNotAvailable:
            raise  # a prepared transaction has it
        except psycopg.Error as error:
            problems.append(f"{kind} {raw_names.shown(identity)}: {error.diag.message_primary or error}")
    if connection.execute(_PUBLIC).fetchone() is not None:
        connections.run(connection, "ALTER SCHEMA public OWNER TO pg_database_owner")
    return problems


def _check_database(connection: Connection, name: str) -> bool:
    """Tell whether a database is to be renamed. Raises Failed when there is one with the name that it is to have."""
    names = {found for (found,) in connection.execute("SELECT datname FROM pg_database").fetchall()}
    if name == DATABASE or name not in names:
        return False
    if DATABASE in names:
        raise Failed("DATABASE_EXISTS", f"There is a database {DATABASE} beside {name}", "Rename it in the source.")
    return True
