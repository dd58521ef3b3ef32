"""The guards of read-only sessions as releases up to November 2026 put them into every database: data of tests."""

from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection

_LOGIN_TRIGGERS_SINCE = 17
_CARRIES_NEITHER = (
    "pg_catalog.current_setting('tsdb_admin.read_only_connection', true) IS NULL"
    " AND pg_catalog.current_setting('tsdb_admin.read_only_role', true) IS NULL"
)
_FALSE = "('false', 'off', 'no', '0', '')"
_DEFINER = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp"

# RESET tells what the session began with, whatever it has SET since; the present value is put back.
_READS_ONLY = f"""
CREATE OR REPLACE FUNCTION pg_catalog.ramet_reads_only() RETURNS boolean {_DEFINER} AS $$
DECLARE
    present text := current_setting('tsdb_admin.read_only_connection', true);
    begun text;
BEGIN
    IF EXISTS (
        SELECT FROM pg_db_role_setting s, unnest(s.setconfig) AS setting
        WHERE s.setrole = (SELECT r.oid FROM pg_roles r WHERE r.rolname = session_user)
          AND s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
          AND lower(split_part(setting, '=', 1)) = 'tsdb_admin.read_only_role'
          AND lower(split_part(setting, '=', 2)) NOT IN {_FALSE}
    ) THEN
        RETURN true;
    END IF;
    IF present IS NULL THEN
        RETURN false;
    END IF;
    RESET tsdb_admin.read_only_connection;
    begun := coalesce(current_setting('tsdb_admin.read_only_connection', true), '');
    PERFORM set_config('tsdb_admin.read_only_connection', present, false);
    RETURN lower(begun) NOT IN {_FALSE} OR lower(present) NOT IN {_FALSE};
END $$
"""
# Runs for each statement that writes, so it is cheap as long as the session carries neither setting: with its caller's
# rights, in place of a condition of the trigger, which would be prepared again for each statement.
_REFUSE_WRITES = f"""
CREATE OR REPLACE FUNCTION pg_catalog.ramet_refuse_writes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF {_CARRIES_NEITHER} THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.ramet_reads_only() THEN
        RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction',
            MESSAGE = pg_catalog.format('cannot execute %s in a read-only session', TG_OP);
    END IF;
    RETURN NULL;
END $$
"""
_REFUSE_DEFINITIONS = f"""
CREATE OR REPLACE FUNCTION pg_catalog.ramet_refuse_definitions() RETURNS event_trigger {_DEFINER} AS $$
BEGIN
    IF NOT ({_CARRIES_NEITHER}) AND ramet_reads_only() THEN
        RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction',
            MESSAGE = format('cannot execute %s in a read-only session', TG_TAG);
    END IF;
END $$
"""
# Internal triggers are left out of dumps, and of what tools show of a table.
_GUARD_TABLES = f"""
CREATE OR REPLACE FUNCTION pg_catalog.ramet_guard_tables() RETURNS event_trigger {_DEFINER} AS $$
DECLARE
    made regclass;
BEGIN
    FOR made IN
        SELECT c.oid::regclass FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON c.oid = d.objid
        WHERE d.classid = 'pg_class'::regclass AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
          AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = 'ramet_read_only')
    LOOP
        EXECUTE format('CREATE TRIGGER ramet_read_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s'
            ' FOR EACH STATEMENT EXECUTE FUNCTION pg_catalog.ramet_refuse_writes()', made);
        UPDATE pg_trigger SET tgisinternal = true WHERE tgrelid = made AND tgname = 'ramet_read_only';
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'read-only sessions can write to %: %', made, SQLERRM;
END $$
"""
# What is dropped along with its table is no "original".
_KEEP_GUARDS = f"""
CREATE OR REPLACE FUNCTION pg_catalog.ramet_keep_guards() RETURNS event_trigger {_DEFINER} AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_event_trigger_dropped_objects() d
        WHERE d.original AND d.object_type = 'trigger' AND starts_with(d.object_identity, 'ramet_read_only on '))
    THEN
        RAISE insufficient_privilege USING MESSAGE = 'trigger ramet_read_only belongs to the platform';
    END IF;
END $$
"""
_KEEP_NAMES = f"""
CREATE OR REPLACE FUNCTION pg_catalog.ramet_keep_names() RETURNS event_trigger {_DEFINER} AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() d JOIN pg_trigger t ON t.oid = d.objid
        WHERE d.classid = 'pg_trigger'::regclass AND t.tgfoid = 'ramet_refuse_writes'::regproc)
    THEN
        RAISE insufficient_privilege USING MESSAGE = 'trigger ramet_read_only belongs to the platform';
    END IF;
END $$
"""
_BEGIN_SESSION = f"""
CREATE OR REPLACE FUNCTION pg_catalog.ramet_begin_session() RETURNS event_trigger {_DEFINER} AS $$
BEGIN
    IF NOT ({_CARRIES_NEITHER}) AND ramet_reads_only() THEN
        PERFORM set_config('default_transaction_read_only', 'on', false);
    END IF;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'this session is not read-only by default: %', SQLERRM;
END $$
"""
_EVENT_TRIGGERS = {
    "ramet_refuse_definitions": "ddl_command_start",
    "ramet_guard_tables": "ddl_command_end"
    " WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'CREATE SCHEMA')",
    "ramet_begin_session": "login",
    "ramet_keep_guards": "sql_drop WHEN TAG IN ('DROP TRIGGER')",
    "ramet_keep_names": "ddl_command_end WHEN TAG IN ('ALTER TRIGGER')",
}


_GUARD = """
CREATE TRIGGER ramet_read_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {}.{}
FOR EACH STATEMENT EXECUTE FUNCTION pg_catalog.ramet_refuse_writes()
"""
_MAKE_INTERNAL = """
UPDATE pg_trigger SET tgisinternal = true WHERE tgfoid = 'pg_catalog.ramet_refuse_writes'::regproc AND NOT tgisinternal
"""
_FUNCTIONS = (_READS_ONLY, _REFUSE_WRITES, _REFUSE_DEFINITIONS, _GUARD_TABLES, _KEEP_GUARDS, _KEEP_NAMES)
_VERSION = "0123456789abcdef"


def install_guards(connection: Connection) -> None:
    """Put the guards into a database; tables that are made from now on carry one."""
    has_login = connection.info.server_version // 10000 >= _LOGIN_TRIGGERS_SINCE
    with connection.transaction():
        for function in (*_FUNCTIONS, *([_BEGIN_SESSION] if has_login else [])):
            connection.execute(function.replace("AS $$", f"AS $$ -- {_VERSION}", 1).encode())
        for name, event in _EVENT_TRIGGERS.items():
            if event != "login" or has_login:
                _put_event_trigger(connection, name, event)


def _put_event_trigger(connection: Connection, name: str, event: str) -> None:
    if connection.execute("SELECT FROM pg_event_trigger WHERE evtname = %s", (name,)).fetchone() is not None:
        connections.run(connection, "ALTER EXTENSION plpgsql DROP EVENT TRIGGER {}", name)
        connections.run(connection, "DROP EVENT TRIGGER {}", name)
    connections.run(connection, f"CREATE EVENT TRIGGER {{}} ON {event} EXECUTE FUNCTION pg_catalog.{name}()", name)
    # A member of an extension is left out of dumps, which a tenant could not restore.
    connections.run(connection, "ALTER EXTENSION plpgsql ADD EVENT TRIGGER {}", name)


def guard_table(connection: Connection, schema: str, table: str) -> None:
    """Put a guard on a table that was there before."""
    connections.run(connection, _GUARD, schema, table)
    connection.execute(_MAKE_INTERNAL)
