"""Keep a fork from affecting the systems that its parent uses (docs/hazards.md, 18 to 22).

Shared catalogs are updated directly, which includes databases that accept no connections and executes no code of
tenants. Only tables that belong to an extension are changed.
"""

from dataclasses import dataclass
from typing import Any

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections, prepared_transactions
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.each_database import in_each
from ramet.backends.local.sql.prepared_transactions import Prepared
from ramet.backends.local.sql.raw_names import database_of, shown

# There is no such host, so later commands on a detached subscription cannot reach the publisher. Its slots belong to
# the parent: their names contain the system identifier, which a fork shares.
_NOWHERE = "host=/nonexistent"


@dataclass(frozen=True)
class _JobTable:
    """An extension's table of scheduled jobs; `user_jobs` excludes the extension's own maintenance jobs."""

    extension: str
    table: str
    active: str
    name: str
    user_jobs: str = "true"


# In the collation C, because a setting may be in the encoding of the database in which it was set.
_IS_TELEMETRY = """starts_with(lower(setting COLLATE "C"), 'timescaledb.telemetry')"""
_WITHOUT_TELEMETRY = f"""
UPDATE pg_db_role_setting
SET setconfig = ARRAY(SELECT setting FROM unnest(setconfig) AS setting WHERE NOT {_IS_TELEMETRY})
WHERE EXISTS (SELECT FROM unnest(setconfig) AS setting WHERE {_IS_TELEMETRY})
"""  # noqa: S608 - all of it is ours
# Jobs below 1000 are the extension's own; one of them sends telemetry.
_TIMESCALEDB_JOBS = "(id >= 1000 OR proc_name = 'policy_telemetry')"
_JOB_TABLES = (
    _JobTable("pg_cron", "cron.job", "active", "jobid"),
    _JobTable("timescaledb", "_timescaledb_config.bgw_job", "scheduled", "id", _TIMESCALEDB_JOBS),
    _JobTable("timescaledb", "_timescaledb_catalog.bgw_job", "scheduled", "id", _TIMESCALEDB_JOBS),
)


@dataclass(frozen=True)
class Inspection:
    """The databases of a server, the templates among them, and its prepared transactions, oldest first."""

    databases: list[connections.Database]
    prepared: list[Prepared]

    @property
    def of_tenants(self) -> list[connections.Database]:
        """The databases that are no templates: in those a tenant can only prepare a transaction."""
        return [each for each in self.databases if not each.is_template]

    @property
    def to_enter(self) -> list[connections.Database]:
        """The databases that accept connections and that a tenant may have written to."""
        return [each for each in self.of_tenants if each.is_open and not each.untouched]


def inspect(connection: Connection) -> Inspection:
    """Return the databases and prepared transactions of a server."""
    databases = connections.databases(connection, with_templates=True)
    return Inspection(databases, prepared_transactions.find(connection))


def findings(found: Inspection) -> dict[str, Any]:
    """Return what a fork's report lists: prepared transactions, and databases that accept no connections."""
    names = {each.oid: each.name for each in found.databases}
    return {
        "prepared_transactions": [
            shown(f"{names[each.database_oid]}: {each.name}") for each in found.prepared if each.database_oid in names
        ],
        "databases_not_entered": [shown(each.name) for each in found.of_tenants if not each.is_open],
    }


def neutralize(paths: ServicePaths, connection: Connection, found: Inspection) -> dict[str, Any]:
    """Remove the credentials of foreign servers and deactivate scheduled jobs, in every database.

    Returns what was changed; `connection` is an open one, which is reused.
    """
    neutralized = in_each(paths, connection, [each.name for each in found.to_enter], _neutralize_one)
    return {
        "user_mappings": sum(count for count, _ in neutralized.values()),
        "jobs": [shown(f"{name}: {job}") for name, (_, jobs) in neutralized.items() for job in jobs],
    }


def disable_telemetry(connection: Connection) -> bool:
    """Remove the settings by which tenants have enabled the telemetry of TimescaleDB; tell whether there were any."""
    changed = connection.execute(_WITHOUT_TELEMETRY.encode())
    connection.execute("DELETE FROM pg_db_role_setting WHERE setconfig = '{}'")
    return changed.rowcount > 0


def _neutralize_one(connection: Connection) -> tuple[int, list[str]]:
    return _clear_user_mappings(connection), _deactivate_jobs(connection)


def end_prepared(paths: ServicePaths, connection: Connection, found: Inspection, *, every: bool) -> dict[str, Any]:
    """Roll back the prepared transactions that change roles or databases, or `every` one; return how many."""
    wanted = [each for each in found.prepared if every or each.changes_shared]
    prepared_transactions.roll_back(paths, connection, found.databases, wanted)
    return {"prepared_transactions_rolled_back": len(wanted)}


def detach_subscriptions(connection: Connection, found: Inspection) -> list[str]:
    """Disable every subscription, and detach it from its slot without contacting the publisher; return their names.

    May run again.
    """
    databases = {each.oid: each.name for each in found.databases}
    rows = connection.execute("SELECT subdbid, subname FROM pg_subscription").fetchall()
    if rows:
        connection.execute(
            "UPDATE pg_subscription SET subenabled = false, subslotname = NULL, subconninfo = %s", (_NOWHERE,)
        )
    return sorted(shown(f"{databases[oid]}.{name}") for oid, name in rows if oid in databases)


def drop_own_subscriptions(connection: Connection, detached: list[str]) -> dict[str, Any]:
    """Drop the subscriptions of this database by which the platform follows a source, which are among the detached.

    A fork that used one would take the changes from its parent. Returns the names of those, and of the others.
    """
    names = _column(
        connection,
        "SELECT subname FROM pg_subscription WHERE subowner = 10 AND subslotname IS NULL AND subname ~ '^ramet_'"
        " AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1",
    )
    for name in names:
        connections.run(connection, "DROP SUBSCRIPTION {}", name)
    if not names:
        return {}
    own = {shown(f"{database_of(connection)}.{name}") for name in names}
    return {"subscriptions": [name for name in detached if name not in own], "own_subscriptions": names}


def _clear_user_mappings(connection: Connection) -> int:
    """Remove the options of user mappings, without the validators of foreign-data wrappers."""
    return connection.execute("UPDATE pg_user_mapping SET umoptions = NULL WHERE umoptions IS NOT NULL").rowcount


def _deactivate_jobs(connection: Connection) -> list[str]:
    jobs: list[str] = []
    extensions = _column(connection, "SELECT extname FROM pg_extension")
    for kept in _JOB_TABLES:
        if kept.extension in extensions and _belongs_to_extension(connection, kept):
            query = (
                f"UPDATE {kept.table} SET {kept.active} = false WHERE {kept.active} AND {kept.user_jobs}"  # noqa: S608
                f" RETURNING {kept.name}::text"
            )
            jobs += [f"{kept.extension} job {row[0]}" for row in connection.execute(query.encode()).fetchall()]
    return jobs


def _belongs_to_extension(connection: Connection, kept: _JobTable) -> bool:
    """Tell whether a table belongs to the extension and a superuser: triggers of tenants would run as superuser."""
    row = connection.execute(
        "SELECT 1 FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner AND r.rolsuper"
        " JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'"
        " JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid"
        " WHERE c.oid = to_regclass(%s) AND c.relkind = 'r' AND e.extname = %s"
        " AND NOT EXISTS (SELECT 1 FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled"
        " IN ('A', 'R'))",
        (kept.table, kept.extension),
    ).fetchone()
    return row is not None


def _column(connection: Connection, query: str) -> list[str]:
    return [row[0] for row in connection.execute(query.encode()).fetchall()]
