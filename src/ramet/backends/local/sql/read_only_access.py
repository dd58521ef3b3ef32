"""Read-only roles and sessions for tenants: functions of the platform, and a login trigger.

The functions create roles without privileges to write. The login trigger, from PostgreSQL 17 on, sets
`default_transaction_read_only` in sessions that begin with `tsdb_admin.read_only_connection`; the loadable module
(read_only_module.py) enforces that. docs/read-only.md describes the rules of each version.
"""

import hashlib
import logging
from collections.abc import Container
from contextlib import suppress

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import closed_databases, connections, earlier_guards, withheld_roles
from ramet.backends.local.sql.connections import ADMIN_ROLE, DATABASE, PLATFORM_ROLE, Connection
from ramet.backends.local.sql.former_superusers import (
    BEGIN_SESSION,
    CALLED,
    REQUIRE_PASSWORDS,
    RESET_CATALOG,
    RESET_DBLINK,
    take_objects,
)
from ramet.backends.local.sql.raw_names import database_of, shown
from ramet.errors import Unavailable

_log = logging.getLogger(__name__)

_LOGIN_TRIGGERS_SINCE = 17
_TEMPLATE = "template1"
_SCHEMA = "timescale_functions"
_FALSE = "('false', 'off', 'no', '0', '')"
_DEFINER = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp"
IS_MARKED = f"""
EXISTS (SELECT FROM pg_db_role_setting s, unnest(s.setconfig) AS setting
    WHERE s.setrole = {{role}} AND lower(split_part(setting, '=', 1) COLLATE "C") = 'tsdb_admin.read_only_role'
      AND lower(split_part(setting, '=', 2) COLLATE "C") NOT IN {_FALSE})
"""

# The context of a failed CREATE ROLE contains its statement with the password, so a new error is raised.
_CREATE_BARE_ROLE = f"""
CREATE OR REPLACE FUNCTION {_SCHEMA}.create_bare_readonly_role(name text, password text) RETURNS void {_DEFINER} AS $$
BEGIN
    IF $1 IS NULL OR $2 IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'name and password of a read-only role must not be null';
    END IF;
    BEGIN
        EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD %L', $1, $2);
        EXECUTE format('ALTER ROLE %I SET tsdb_admin.read_only_role = true', $1);
        EXECUTE format('ALTER ROLE %I SET default_transaction_read_only = on', $1);
        IF current_setting('server_version_num')::int >= 160000 THEN
            EXECUTE format('GRANT %I TO {ADMIN_ROLE} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE', $1);
        END IF;
    EXCEPTION WHEN OTHERS THEN
        RAISE EXCEPTION USING ERRCODE = SQLSTATE, MESSAGE = SQLERRM;
    END;
END $$
"""
_LET_ROLE_READ = f"""
CREATE OR REPLACE FUNCTION {_SCHEMA}.grant_tsdbadmin_to_role(name text) RETURNS void {_DEFINER} AS $$
DECLARE
    reader oid := (SELECT r.oid FROM pg_roles r WHERE r.rolname = $1);
BEGIN
    IF reader IS NULL THEN
        RAISE undefined_object USING MESSAGE = format('role "%s" does not exist', $1);
    END IF;
    IF NOT {IS_MARKED.format(role="reader")} THEN
        RAISE invalid_grant_operation USING MESSAGE = format('role "%s" is not a read-only role', $1),
            HINT = 'Create the role with {_SCHEMA}.create_bare_readonly_role(name, password).';
    END IF;
    EXECUTE format('GRANT pg_read_all_data, pg_monitor TO %I', $1);
END $$
"""  # noqa: S608 - all of it is ours
# Settings that a client sends override those of its role, so the role's setting is looked up.
_BEGIN_SESSION = f"""
CREATE OR REPLACE FUNCTION pg_catalog.ramet_begin_session() RETURNS event_trigger {_DEFINER} AS $$
BEGIN
    IF lower(coalesce(current_setting('tsdb_admin.read_only_connection', true), '')) NOT IN {_FALSE}
       OR current_setting('tsdb_admin.read_only_role', true) IS NOT NULL
       AND {IS_MARKED.format(role="(SELECT r.oid FROM pg_roles r WHERE r.rolname = session_user)")}
    THEN
        PERFORM set_config('default_transaction_read_only', 'on', false);
    END IF;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'this session is not read-only by default: %', SQLERRM;
END $$
"""  # noqa: S608 - all of it is ours
_FUNCTIONS = {
    "create_bare_readonly_role(text, text)": _CREATE_BARE_ROLE,
    "grant_tsdbadmin_to_role(text)": _LET_ROLE_READ,
}
_TRIGGER = "ramet_begin_session"
# A source can have another one of that name, which stays disabled.
_IS_OWN_TRIGGER = f"SELECT evtfoid = {BEGIN_SESSION} FROM pg_event_trigger WHERE evtname = %s"  # noqa: S608 - ours
_RESETS = (RESET_CATALOG, RESET_DBLINK, REQUIRE_PASSWORDS)
# Stored in the text of a function, where each fork finds it.
_VERSION = hashlib.sha256(repr((_FUNCTIONS, _BEGIN_SESSION, CALLED, _RESETS)).encode()).hexdigest()[:16]
_FIND = f"""
SELECT proname, prosrc FROM pg_proc WHERE proname IN ('ramet_refuse_writes', 'create_bare_readonly_role')
AND pronamespace IN ('pg_catalog'::regnamespace, to_regnamespace('{_SCHEMA}'))
"""  # noqa: S608 - all of it is ours


def install(paths: ServicePaths, database: str) -> None:
    """Install the functions and the login trigger in a database, or a template of databases; may run again."""
    with connections.connect(paths, database) as connection:
        _install(connection)


def renew(paths: ServicePaths) -> bool:
    """Upgrade all databases of a running server from earlier releases, and take from tenants the roles withheld since.

    Returns False when a database could not be upgraded, a transaction locks such a role, or running statements still
    need the earlier functions. The tenants' own database is upgraded last: when it is current, all are that can be
    entered.
    """
    with connections.connect(paths) as connection:
        is_withheld = withheld_roles.withhold_from_serving(paths, connection)
        known = [each for each in connections.databases(connection) if not each.is_invalid]
        locked = connections.locked_databases(connection)
    own = [each for each in known if each.name == DATABASE]
    if any(each.is_open and each.name not in locked and _has_current(paths, each) for each in own):
        return is_withheld
    template = connections.Database(1, _TEMPLATE, True, untouched=False)
    others = [each for each in known if each.name != DATABASE and not (each.untouched and each.is_open)]
    is_done = True
    for each in sorted([template, *others], key=lambda one: not one.is_open):
        # To open a database writes to the server, so closed ones have their turn when that may complete the upgrade.
        is_done = (each.is_open or is_done) and _renew_one(paths, each, locked) and is_done
    renewed = [(each.is_open or is_done) and _renew_one(paths, each, locked, marked=is_done) for each in own]
    return is_withheld and is_done and all(renewed)


def _has_current(paths: ServicePaths, database: connections.Database) -> bool:
    with suppress(Unavailable), connections.connect(paths, database.name) as connection:
        return is_current(connection)
    return False


def _renew_one(
    paths: ServicePaths, database: connections.Database, locked: Container[str], *, marked: bool = True
) -> bool:
    """Upgrade one database if it is not `locked`; unless `marked`, it does not count as current yet.

    What tenants could misuse is taken from them all the same.
    """
    try:
        if database.name in locked:
            raise connections.is_locked(database.name)
        with closed_databases.entered(paths, database) as connection:
            if not earlier_guards.remove(connection):
                return False
            if not is_current(connection):
                (_install if marked else _take_back)(connection)
    except (psycopg.Error, Unavailable) as error:
        _log.warning("database %s of service %s was not upgraded: %s", database.name, paths.service_id, error)
        return False
    return True


def is_current(connection: Connection) -> bool:
    """Tell whether a database has the functions of this release, and none of earlier ones."""
    found: dict[str, str] = dict(connection.execute(_FIND).fetchall())
    return "ramet_refuse_writes" not in found and _VERSION in found.get("create_bare_readonly_role", "")


def _take_back(connection: Connection) -> None:
    """Take from tenants what earlier releases gave to them, or left as the source of a copy had it."""
    with connection.transaction():
        take_objects(connection)
        for statement in _RESETS:
            connection.execute(statement.encode())


def _install(connection: Connection) -> None:
    with connection.transaction():
        _take_back(connection)
        if connection.info.server_version // 10000 >= _LOGIN_TRIGGERS_SINCE:
            _install_login_trigger(connection)
        if _may_use_schema(connection):
            _install_functions(connection)


def _install_login_trigger(connection: Connection) -> None:
    connection.execute(_BEGIN_SESSION.encode())
    # Earlier releases gave it to tenants, and disabled the trigger, in forks of a service that moved.
    connection.execute(f"ALTER FUNCTION pg_catalog.{_TRIGGER}() OWNER TO CURRENT_USER".encode())
    is_own = connection.execute(_IS_OWN_TRIGGER, (_TRIGGER,)).fetchone()
    if is_own == (True,):
        connection.execute(f"ALTER EVENT TRIGGER {_TRIGGER} ENABLE".encode())
    if is_own is None:
        connections.run(
            connection, f"CREATE EVENT TRIGGER {{}} ON login EXECUTE FUNCTION pg_catalog.{_TRIGGER}()", _TRIGGER
        )
        _leave_out_of_dumps(connection, f"EVENT TRIGGER {_TRIGGER}")


def _may_use_schema(connection: Connection) -> bool:
    """Tell whether the schema of the functions belongs to the platform; create it if it does not exist."""
    owner = connection.execute("SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = %s", (_SCHEMA,))
    row = owner.fetchone()
    if row is None:
        connection.execute(f"CREATE SCHEMA {_SCHEMA}".encode())
        connection.execute(f"GRANT USAGE ON SCHEMA {_SCHEMA} TO {ADMIN_ROLE}".encode())
        _leave_out_of_dumps(connection, f"SCHEMA {_SCHEMA}")
    elif row[0] != PLATFORM_ROLE:
        _log.warning("database %s already has a schema %s owned by %s", shown(database_of(connection)), _SCHEMA, row[0])
        return False
    return True


def _install_functions(connection: Connection) -> None:
    for signature, text in _FUNCTIONS.items():
        function = f"FUNCTION {_SCHEMA}.{signature}"
        is_new = connection.execute("SELECT to_regprocedure(%s) IS NULL", (f"{_SCHEMA}.{signature}",)).fetchone()
        connection.execute(text.replace("AS $$", f"AS $$ -- {_VERSION}", 1).encode())
        connection.execute(f"REVOKE ALL ON {function} FROM PUBLIC".encode())
        connection.execute(f"GRANT EXECUTE ON {function} TO {ADMIN_ROLE}".encode())
        if is_new == (True,):
            _leave_out_of_dumps(connection, function)


def _leave_out_of_dumps(connection: Connection, what: str) -> None:
    """Make an object a member of an extension, so that pg_dump skips it: tenants could not restore it."""
    connection.execute(f"ALTER EXTENSION plpgsql ADD {what}".encode())
