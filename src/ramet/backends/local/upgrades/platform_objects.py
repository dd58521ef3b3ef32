"""What the platform has put into the databases of a server, taken out before an upgrade and put back after it.

pg_upgrade leaves out the members of the extension plpgsql but not the privileges on them, and fails at these; so what
read_only_access.py made is dropped before. The role of poolers has a reserved name, which pg_dumpall leaves out.
"""

from collections.abc import Iterator, Sequence

import psycopg

from ramet.backends.interface.values import Server
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import (
    connections,
    earlier_guards,
    extensions,
    read_only_access,
    service_roles,
    withheld_roles,
)
from ramet.backends.local.sql.connections import ADMIN_ROLE, PLATFORM_ROLE, POOLER_ROLE, Connection
from ramet.backends.local.sql.raw_names import shown
from ramet.backends.local.sql.tenant_code import message_of
from ramet.errors import Failed

_TEMPLATE = "template1"
_LAST_MAJOR_WITHOUT_ADMIN_OPTION = 15
_MEMBERS = """
SELECT CASE WHEN d.classid = 'pg_proc'::regclass THEN d.objid::regprocedure::text
            WHEN d.classid = 'pg_namespace'::regclass THEN d.objid::regnamespace::text
            ELSE (SELECT quote_ident(evtname) FROM pg_event_trigger t WHERE t.oid = d.objid) END,
       d.classid::regclass::text
FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
WHERE e.extname = 'plpgsql' AND d.deptype = 'e' AND d.objid >= 16384
ORDER BY array_position(ARRAY['pg_event_trigger', 'pg_proc', 'pg_namespace'], d.classid::regclass::text)
"""
_KINDS = {"pg_event_trigger": "EVENT TRIGGER", "pg_proc": "FUNCTION", "pg_namespace": "SCHEMA"}
_TENANT_ROLES = (
    "SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' AND NOT rolsuper AND rolname <> ALL(%s) ORDER BY 1"
)


def take_out(paths: ServicePaths) -> None:
    """Drop what the platform made in each database of a running server. Raises Failed when tenants depend on it."""
    with connections.connect(paths) as connection:
        withheld_roles.withhold_to_upgrade(connection)
    for database in databases(paths):
        with connections.connect(paths, database) as connection:
            earlier_guards.remove(connection)
            try:
                with connection.transaction():
                    for name, catalog in connection.execute(_MEMBERS).fetchall():
                        kind = _KINDS[catalog]
                        connection.execute(f"ALTER EXTENSION plpgsql DROP {kind} {name}".encode())
                        connection.execute(f"DROP {kind} {name}".encode())
                    connection.execute("DROP FUNCTION IF EXISTS pg_catalog.ramet_begin_session()")
            except psycopg.errors.DependentObjectsStillExist as error:
                raise Failed(
                    "UPGRADE_FAILED",
                    f"Objects of database {shown(database)} depend on functions that Ramet gives to each version",
                    f"{error.diag.message_primary}: {error.diag.message_detail}",
                ) from error


def put_back(paths: ServicePaths, server: Server, from_major: int) -> list[str]:
    """Give an upgraded server what each server has; return what could not be done."""
    with connections.connect(paths) as connection:
        service_roles.ensure_pooler_role(connection)
        problems = [*_grant_tenant_roles(connection)] if from_major <= _LAST_MAJOR_WITHOUT_ADMIN_OPTION else []
    for database in databases(paths):
        read_only_access.install(paths, database)
    updates = extensions.update(paths, None) or ()
    return problems + [f"{one.database}.{one.extension}: {one.problem}" for one in updates if one.problem is not None]


def databases(paths: ServicePaths) -> Sequence[str]:
    """Return the databases that pg_upgrade carries over, and in which tenants may have created something."""
    with connections.connect(paths) as connection:
        return [_TEMPLATE, *(each.name for each in connections.databases(connection) if each.is_open)]


def _grant_tenant_roles(connection: Connection) -> Iterator[str]:
    """Let the admin manage the tenants' roles as before: from version 16 on that takes ADMIN OPTION on each of them."""
    reserved = [PLATFORM_ROLE, POOLER_ROLE, ADMIN_ROLE]
    for (role,) in connection.execute(_TENANT_ROLES, (reserved,)).fetchall():
        try:
            connections.run(connection, "GRANT {} TO {} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE", role, ADMIN_ROLE)
        except psycopg.errors.InvalidGrantOperation as error:  # it is a member of a member of the role
            yield f"{ADMIN_ROLE} cannot manage role {shown(role)}: {message_of(error)}"
