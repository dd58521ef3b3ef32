"""What the superusers of a source have made or granted that works with a superuser's rights, taken from tenants.

The admin becomes a member of the roles of these superusers. The platform fires event triggers, and executes functions
of casts, and functions and views of extensions, as superuser: whoever owns these could replace them.
"""

from ramet.backends.local.sql import raw_names
from ramet.backends.local.sql.connections import Connection

_SUPERUSERS = "(SELECT oid FROM pg_authid WHERE rolsuper AND oid <> 10)"
_HERE = "(SELECT oid FROM pg_database WHERE datname = current_database())"
# Of read_only_access.py, where the source is a service that moves; NULL elsewhere.
BEGIN_SESSION = "to_regprocedure('pg_catalog.ramet_begin_session()')"
# An extension's own stay as they are, where no tenant owns the function: TimescaleDB does not work without its.
_DISABLE_EVENT_TRIGGERS = f"""
UPDATE pg_event_trigger t SET evtenabled = 'D'
WHERE evtenabled <> 'D' AND evtfoid IS DISTINCT FROM {BEGIN_SESSION} AND NOT EXISTS (
    SELECT FROM pg_depend d JOIN pg_depend f ON f.refclassid = d.refclassid AND f.refobjid = d.refobjid
    JOIN pg_proc p ON p.oid = f.objid AND (proowner = 10 OR proowner IN {_SUPERUSERS})
    WHERE d.classid = 'pg_event_trigger'::regclass AND d.objid = t.oid AND d.deptype = 'e'
        AND f.classid = 'pg_proc'::regclass AND f.objid = t.evtfoid AND f.deptype = 'e')
RETURNING evtname
"""  # noqa: S608 - all of it is ours
_TAKE_EVENT_TRIGGERS = "UPDATE pg_event_trigger SET evtowner = 10 WHERE evtowner <> 10"
# There is no ALTER EXTENSION OWNER.
_TAKE_EXTENSIONS = f"""
UPDATE pg_extension SET extowner = 10 WHERE extowner IN {_SUPERUSERS} RETURNING 'extension ' || quote_ident(extname)
"""  # noqa: S608 - all of it is ours
_FORGET_OWNERS = f"""
DELETE FROM pg_shdepend s WHERE s.dbid = {_HERE} AND s.deptype = 'o' AND (
    s.classid = 'pg_event_trigger'::regclass
    OR s.classid = 'pg_extension'::regclass AND EXISTS (SELECT FROM pg_extension WHERE oid = s.objid AND extowner = 10))
"""  # noqa: S608 - all of it is ours
# Superusers make casts between PostgreSQL's own types, and operators in pg_catalog: queries of the platform use them.
CALLED = """(
    SELECT castfunc FROM pg_cast WHERE castfunc >= 16384 AND castsource < 16384 AND casttarget < 16384
    UNION SELECT oprcode FROM pg_operator WHERE oprcode >= 16384 AND oprnamespace = 'pg_catalog'::regnamespace)"""
# Such a function may have been harmless as its owner's only, and would have a superuser's rights for all tenants.
_TAKE_RIGHTS = f"UPDATE pg_proc SET prosecdef = false WHERE prosecdef AND oid IN {CALLED}"  # noqa: S608 - all of it is ours
# Without objects that have the owner of another one, such as the sequence of a column, and those that the platform owns
# already, which would all be locked: on Kubernetes it is another role than the one with oid 10.
_OBJECTS = f"""
SELECT i.type, i.identity, EXISTS (
    SELECT FROM pg_depend d WHERE d.classid = s.classid AND d.objid = s.objid AND d.deptype = 'e') AS is_member
FROM pg_shdepend s, pg_identify_object(s.classid, s.objid, 0) i
WHERE s.dbid = {_HERE} AND s.deptype = 'o' AND s.refclassid = 'pg_authid'::regclass AND (
    s.classid = 'pg_proc'::regclass AND s.objid IN {CALLED} OR s.refobjid IN {_SUPERUSERS}
    AND (s.classid IN ('pg_foreign_data_wrapper'::regclass, 'pg_language'::regclass) OR EXISTS (
        SELECT FROM pg_depend d WHERE d.classid = s.classid AND d.objid = s.objid AND d.deptype = 'e')))
    AND s.refobjid <> (SELECT oid FROM pg_authid WHERE rolname = CURRENT_USER)
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = s.classid AND d.objid = s.objid
        AND (d.deptype = 'i' OR d.deptype = 'a' AND d.refobjsubid <> 0))
ORDER BY s.classid, s.objid
"""  # noqa: S608 - all of it is ours
_WORDS = {"statistics object": "statistics", "foreign-data wrapper": "foreign data wrapper"}
# Functions that PUBLIC may not execute, such as lo_export, ask for no other right.
_RESET_FUNCTIONS = f"""
WITH reset AS (
    UPDATE pg_proc p SET proacl = i.initprivs FROM pg_init_privs i
    WHERE i.classoid = 'pg_proc'::regclass AND i.objoid = p.oid AND i.privtype = 'i' AND p.oid < 16384
        AND p.proacl IS DISTINCT FROM i.initprivs RETURNING p.oid),
forgotten AS (
    DELETE FROM pg_shdepend s USING reset
    WHERE s.dbid = {_HERE} AND s.classid = 'pg_proc'::regclass AND s.objid = reset.oid AND s.deptype = 'a')
SELECT oid::regprocedure::text FROM reset ORDER BY 1
"""  # noqa: S608 - all of it is ours
# Whoever may create functions there could overload those that the platform calls.
RESET_CATALOG = f"""
WITH reset AS (
    UPDATE pg_namespace n SET nspowner = 10, nspacl = i.initprivs FROM pg_init_privs i
    WHERE i.classoid = 'pg_namespace'::regclass AND i.objoid = n.oid AND n.nspname = 'pg_catalog' AND (
        n.nspowner <> 10 OR EXISTS (
            SELECT FROM aclexplode(n.nspacl) a WHERE a.privilege_type = 'CREATE' AND a.grantee <> 10))
    RETURNING n.oid),
forgotten AS (
    DELETE FROM pg_shdepend s USING reset
    WHERE s.dbid = {_HERE} AND s.classid = 'pg_namespace'::regclass AND s.objid = reset.oid)
SELECT 'schema pg_catalog' FROM reset
"""  # noqa: S608 - all of it is ours
# postgres_fdw connects without a password where a superuser has set this: the servers of all services run as one system
# user, which their private sockets admit to replication, and as superuser where Ramet does not run as root. The owner
# of the foreign server chooses the socket. An UPDATE calls no validator.
REQUIRE_PASSWORDS = """
UPDATE pg_user_mapping SET umoptions = NULLIF(
    ARRAY(SELECT option FROM unnest(umoptions) AS option WHERE NOT starts_with(option, 'password_required=')), '{}')
WHERE EXISTS (SELECT FROM unnest(umoptions) AS option WHERE starts_with(option, 'password_required='))
RETURNING (SELECT 'user mapping for ' || identity FROM pg_identify_object('pg_user_mapping'::regclass, oid, 0))
"""
# This function of dblink connects without a password, too, for whoever may execute it: the extension withholds it.
RESET_DBLINK = f"""
WITH reset AS (
    UPDATE pg_proc p SET proacl = ARRAY[makeaclitem(10, 10, 'EXECUTE', false)]
    FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'dblink'
    WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
        AND d.refclassid = 'pg_extension'::regclass AND p.proname = 'dblink_connect_u' AND p.proowner = 10
        AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', 10))) a WHERE a.grantee <> 10)
    RETURNING p.oid),
forgotten AS (
    DELETE FROM pg_shdepend s USING reset
    WHERE s.dbid = {_HERE} AND s.classid = 'pg_proc'::regclass AND s.objid = reset.oid AND s.deptype = 'a')
SELECT oid::regprocedure::text FROM reset ORDER BY 1
"""  # noqa: S608 - all of it is ours
_REVOKE_PARAMETERS = """
WITH revoked AS (DELETE FROM pg_parameter_acl RETURNING oid, parname),
forgotten AS (
    DELETE FROM pg_shdepend s USING revoked WHERE s.classid = 'pg_parameter_acl'::regclass AND s.objid = revoked.oid)
SELECT parname FROM revoked ORDER BY 1
"""


def take(connection: Connection) -> dict[str, list[str]]:
    """Give the platform what works with a superuser's rights in the database of a connection. May run again.

    Return what the database has lost, by the names of a report, without the members of its extensions. The schema of
    PostgreSQL's functions is among those revoked.
    The superusers of the source must still be superusers, and the connection that of the first one.
    """
    with connection.transaction():
        triggers = _column(connection, _DISABLE_EVENT_TRIGGERS)  # before others change anything
        connection.execute(_TAKE_EVENT_TRIGGERS)
        objects = _column(connection, _TAKE_EXTENSIONS)
        connection.execute(_FORGET_OWNERS.encode())
        objects += take_objects(connection)
        functions = _column(connection, _RESET_FUNCTIONS) + _column(connection, RESET_CATALOG)
        functions += _column(connection, RESET_DBLINK)  # now that it is the platform's
        mappings = _column(connection, REQUIRE_PASSWORDS)
    return {
        "event_triggers_disabled": sorted(triggers),
        "objects_kept": sorted(objects),
        "functions_revoked": functions,
        "passwords_required": sorted(mappings),
    }


def take_objects(connection: Connection) -> list[str]:
    """Make the platform the owner of what it calls; return what is no member of an extension. May run again.

    Where the superusers of the source are none any more, these are only the functions of casts and operators.
    """
    objects = []
    connection.execute(_TAKE_RIGHTS.encode())
    for kind, identity, is_member in connection.execute(_OBJECTS.encode()).fetchall():
        named = f"{_WORDS.get(kind, kind)} {identity}"
        connection.execute(raw_names.encoded(f"ALTER {named} OWNER TO CURRENT_USER"))
        objects += [] if is_member else [raw_names.shown(named)]
    return objects


def revoke_parameters(connection: Connection) -> list[str]:
    """Revoke all privileges to set parameters that only superusers may set; return the parameters. May run again."""
    return _column(connection, _REVOKE_PARAMETERS)


def _column(connection: Connection, query: str) -> list[str]:
    return [raw_names.shown(name) for (name,) in connection.execute(query.encode()).fetchall()]
