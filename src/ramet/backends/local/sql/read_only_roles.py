"""Revoke write privileges from roles that tenants mark with `ALTER ROLE ... SET tsdb_admin.read_only_role = true`.

A check reads one directory unless WAL was written since the last one. Privileges are revoked by SQL statements;
ownership.py reassigns the objects of a marked role. Other servers wait for a check, and tenants can lock what it needs:
so it ends after some roles, and the next one continues.
"""

import logging
import math
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections, ownership
from ramet.backends.local.sql.connections import ADMIN_ROLE, PLATFORM_ROLE, POOLER_ROLE, Connection
from ramet.backends.local.sql.raw_names import shown
from ramet.backends.local.sql.read_only_access import IS_MARKED
from ramet.backends.local.wal.locate import WAL_DIRECTORY
from ramet.errors import Unavailable

_log = logging.getLogger(__name__)
# A write privilege in addition to another privilege on the same object does not change the digest.
_SWEEP_SECONDS = 30.0
_UNKNOWN_NS = -1
_BUDGET_SECONDS = 2.0
_LOCK_TIMEOUT = "1s"
_STATEMENT_TIMEOUT = "10s"  # it may wait for any number of locks
_ROLE_SECONDS = 20.0  # for changes, without the sessions that they need: there may be many databases
_CONNECT_SECONDS = 3  # a transaction may lock a database just after it was found not to be locked
_GROUP_ROLES_SINCE = 16
_OTHERS = [ADMIN_ROLE, PLATFORM_ROLE, POOLER_ROLE]
_READING = ["pg_read_all_data", "pg_monitor", "pg_read_all_settings", "pg_read_all_stats", "pg_stat_scan_tables"]
_WRITES = ["INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "MAINTAIN", "CREATE"]

# The digest changes when the role owns another object, or gets a first privilege on one, in any database.
_MARKED = f"""
SELECT r.oid, r.rolname, md5(concat(
    r.rolcreaterole, r.rolcreatedb, r.rolreplication,
    (SELECT string_agg(concat(dbid, ' ', classid, ' ', objid, ' ', deptype), ',' ORDER BY dbid, classid, objid, deptype)
     FROM pg_shdepend WHERE refclassid = 'pg_authid'::regclass AND refobjid = r.oid),
    (SELECT string_agg(roleid::text, ',' ORDER BY roleid) FROM pg_auth_members WHERE member = r.oid)))
FROM pg_roles r WHERE NOT r.rolsuper AND r.rolname <> ALL(%s) AND {IS_MARKED.format(role="r.oid")}
"""  # noqa: S608 - all of it is ours
_GROUPS = """
WITH RECURSIVE member_of(direct, role) AS (
    SELECT roleid, roleid FROM pg_auth_members WHERE member = %s
    UNION SELECT direct, m.roleid FROM member_of JOIN pg_auth_members m ON m.member = role)
SELECT direct, r.oid, r.rolname, r.rolname = ANY(%s) AS reads, r.rolsuper OR r.rolcreaterole OR r.rolcreatedb
       OR r.rolname ~ '^pg_'
       OR EXISTS (SELECT FROM pg_shdepend s WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid = r.oid
                  AND s.deptype = 'o') AS writes
FROM member_of JOIN pg_roles r ON r.oid = role
"""
# kind, object, privilege, grantor where that is not the owner, grantee
_WRITE_GRANTS = """
WITH grants(kind, object, privilege, owner, acl) AS (
    SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, format('%%I.%%I', n.nspname, c.relname), '',
           c.relowner, c.relacl FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    UNION ALL SELECT 'TABLE', format('%%I.%%I', n.nspname, c.relname), format(' (%%I)', t.attname), c.relowner, t.attacl
    FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    UNION ALL SELECT 'SCHEMA', format('%%I', nspname), '', nspowner, nspacl FROM pg_namespace
    UNION ALL SELECT 'DATABASE', format('%%I', datname), '', datdba, datacl FROM pg_database
    WHERE datname = current_database()
    UNION ALL SELECT 'LARGE OBJECT', oid::text, '', lomowner, lomacl FROM pg_largeobject_metadata
)
SELECT kind, object, a.privilege_type || privilege, CASE WHEN a.grantor <> owner THEN g.rolname END, a.grantee
FROM grants, aclexplode(acl) a LEFT JOIN pg_roles g ON g.oid = a.grantor
WHERE acl IS NOT NULL AND a.grantee = ANY(%s)
  AND (a.privilege_type = ANY(%s) OR kind = 'SEQUENCE' AND a.privilege_type = 'USAGE')
"""
_DEFAULT_GRANTS = """
SELECT DISTINCT o.rolname, n.nspname, CASE d.defaclobjtype WHEN 'S' THEN 'SEQUENCES' WHEN 'n' THEN 'SCHEMAS'
       ELSE 'TABLES' END, a.privilege_type
FROM pg_default_acl d JOIN pg_roles o ON o.oid = d.defaclrole LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace,
     aclexplode(d.defaclacl) a
WHERE a.grantee = %s AND (a.privilege_type = ANY(%s) OR d.defaclobjtype = 'S' AND a.privilege_type = 'USAGE')
"""

# A session keeps the role of SET ROLE when the membership is revoked.
_END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usesysid = %s"


@dataclass(frozen=True)
class _Role:
    """A marked role, and a digest of what its privileges depend on."""

    oid: int
    name: str
    digest: str


@dataclass(frozen=True)
class _Observed:
    """The state of a server at the last check of its marked roles, and at the last full check.

    `due` says when each role is checked next: infinite for what is settled until a full check.
    """

    wal_ns: int
    swept_ns: int
    next_sweep: float
    due: Mapping[_Role, float]


@dataclass(frozen=True)
class ReadOnlyRoles:
    """The read-only roles of the servers of one data root."""

    _observed: dict[str, _Observed] = field(default_factory=dict)

    def enforce(self, paths: ServicePaths) -> None:
        """Revoke write privileges from the marked roles of a running server, unless that was done already.

        It ends after about two seconds; the next call continues. A role for which it fails rests for half a minute,
        and twice as long each time while no WAL is written: the sessions in tenants' databases count as use of the
        service, which would never sleep.
        """
        wal_ns, now = _wal_written_ns(paths), time.monotonic()
        last = self._observed.get(paths.service_id)
        if last is None or (now >= last.next_sweep and last.swept_ns != wal_ns):
            known = {} if last is None else last.due
            soon = now + _SWEEP_SECONDS
            due = {role: now if when == math.inf else min(when, soon) for role, when in known.items()}
            last = _Observed(wal_ns, wal_ns, now + _SWEEP_SECONDS, due)
        elif last.wal_ns == wal_ns and now < min(last.due.values(), default=math.inf):
            return
        since_sweep = now - last.next_sweep + _SWEEP_SECONDS
        try:
            last = replace(last, due=_settle(paths, last.due, max(since_sweep, _SWEEP_SECONDS)))
        except (psycopg.Error, Unavailable) as error:
            level = logging.INFO if isinstance(error, Unavailable) else logging.WARNING  # a server may just be stopped
            _log.log(level, "the read-only roles of service %s could not be checked: %s", paths.service_id, error)
            last = replace(last, swept_ns=_UNKNOWN_NS)  # the next full check does not wait until WAL is written
        self._observed[paths.service_id] = replace(last, wal_ns=wal_ns)

    def forget(self, service_id: str) -> None:
        """Forget a service that is gone."""
        self._observed.pop(service_id, None)


def _wal_written_ns(paths: ServicePaths) -> int:
    """Return when WAL was written last: marking a role writes WAL."""
    try:
        return max(entry.stat().st_mtime_ns for entry in (paths.data / WAL_DIRECTORY).iterdir())
    except (OSError, ValueError):
        return 0


def _settle(paths: ServicePaths, due: Mapping[_Role, float], rest_seconds: float) -> dict[_Role, float]:
    """Check the roles that are due, those first that are due the longest; return when each is due next.

    One for which that fails is due again after `rest_seconds`.
    """
    now, tried = time.monotonic(), dict[int, float]()
    with _session(paths) as connection:
        marked = _marked(connection)
        for role in sorted(marked, key=lambda one: due.get(one, 0.0)):
            if due.get(role, 0.0) > now or (tried and time.monotonic() >= now + _BUDGET_SECONDS):
                break
            is_settled = _try_to_take_rights(paths, connection, role)
            tried[role.oid] = math.inf if is_settled else time.monotonic() + rest_seconds
        if tried:
            marked = _marked(connection)
    return {role: tried.get(role.oid, due.get(role, 0.0)) for role in marked}


def _session(
    paths: ServicePaths, database: str = "postgres", *, timeout_seconds: int = 10
) -> AbstractContextManager[Connection]:
    limits = {"lock_timeout": _LOCK_TIMEOUT, "statement_timeout": _STATEMENT_TIMEOUT}
    return connections.connect(paths, database, timeout_seconds=timeout_seconds, **limits)


def _marked(connection: Connection) -> frozenset[_Role]:
    return frozenset(_Role(*row) for row in connection.execute(_MARKED.encode(), (_OTHERS,)).fetchall())


def _try_to_take_rights(paths: ServicePaths, connection: Connection, role: _Role) -> bool:
    try:
        _take_rights(paths, connection, role)
    except (psycopg.Error, Unavailable) as error:
        connection.execute("SELECT")  # it fails where the server stops, which is no fault of the role
        _log.warning("role %s of service %s keeps write privileges: %s", shown(role.name), paths.service_id, error)
        return False
    return True


def _take_rights(paths: ServicePaths, connection: Connection, role: _Role) -> None:
    """Revoke all write privileges of a role, in all databases."""
    groups = connection.execute(_GROUPS, (role.oid, _READING)).fetchall()
    from_admin = any(name == ADMIN_ROLE for _, _, name, _, _ in groups)
    databases = ["postgres", *(name for name in connections.tenant_databases(connection) if name != "postgres")]
    writers = {oid for _, oid, _, reads, writes in groups if writes and not reads}
    candidates, seconds = {oid for _, oid, _, reads, _ in groups if not reads}, _ROLE_SECONDS
    for database in databases:
        connections.check_unlocked(connection, database)
        with _session(paths, database, timeout_seconds=_CONNECT_SECONDS) as inside:
            writers |= {row[4] for row in inside.execute(_WRITE_GRANTS, (list(candidates), _WRITES)).fetchall()}
            begun = time.monotonic()
            with inside.transaction():
                ownership.take(inside, role.oid, role.name, from_admin=from_admin, deadline=begun + seconds)
            late = _revoke_writes(inside, role, begun + seconds)
            if late is not None:
                raise late
            seconds -= time.monotonic() - begun
    with connection.transaction():
        _restrict(connection, role)
        left = {direct for direct, oid, *_ in groups if oid in writers}
        _revoke_memberships(connection, role, left, time.monotonic() + seconds)
        if from_admin:
            connections.run(connection, "GRANT pg_read_all_data, pg_monitor TO {}", role.name)
        # In the transaction in case this process ends after the commit, and again for sessions that began before it.
        _end_sessions(connection, role, left)
    _end_sessions(connection, role, left)


def _end_sessions(connection: Connection, role: _Role, left: set[int]) -> None:
    if left:
        connection.execute(_END_SESSIONS, (role.oid,))


def _revoke_writes(connection: Connection, role: _Role, deadline: float) -> Unavailable | None:
    """Revoke privileges in one transaction; return that it has to go on after the deadline, where it does.

    What is revoked by then stays so: else a role with very many grants would always be at the beginning.
    """
    with connection.transaction():
        try:
            _revoke_in_time(connection, role, deadline)
        except Unavailable as error:
            return error
    return None


def _revoke_in_time(connection: Connection, role: _Role, deadline: float) -> None:
    grants = connection.execute(_WRITE_GRANTS, ([role.oid], _WRITES)).fetchall()
    for kind, thing, privilege, grantor, _ in ownership.in_time(grants, deadline):
        if grantor is not None:
            connections.run(connection, "SET LOCAL ROLE {}", grantor)
        what = f"{privilege} ON {kind} {thing}".replace("{", "{{").replace("}", "}}")
        connections.run(connection, f"REVOKE {what} FROM {{}} CASCADE", role.name)
        if grantor is not None:
            connection.execute("SET LOCAL ROLE NONE")
    grants = connection.execute(_DEFAULT_GRANTS, (role.oid, _WRITES)).fetchall()
    for owner, schema, kind, privilege in ownership.in_time(grants, deadline):
        names = [owner, role.name] if schema is None else [owner, schema, role.name]
        where = "" if schema is None else " IN SCHEMA {}"
        connections.run(
            connection, f"ALTER DEFAULT PRIVILEGES FOR ROLE {{}}{where} REVOKE {privilege} ON {kind} FROM {{}}", *names
        )


def _restrict(connection: Connection, role: _Role) -> None:
    """Remove attributes that allow writes, unless that was done already."""
    query = (
        "SELECT rolcreatedb OR rolcreaterole OR rolreplication,"
        " 'default_transaction_read_only=on' = ANY(coalesce(rolconfig, '{}')) FROM pg_roles WHERE oid = %s"
    )
    for is_powerful, has_default in connection.execute(query, (role.oid,)).fetchall():
        if is_powerful:
            connections.run(connection, "ALTER ROLE {} NOCREATEDB NOCREATEROLE NOREPLICATION", role.name)
        if not has_default:
            connections.run(connection, "ALTER ROLE {} SET default_transaction_read_only = on", role.name)


def _revoke_memberships(connection: Connection, role: _Role, groups: set[int], deadline: float) -> None:
    query = (
        "SELECT g.rolname, o.rolname FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid"
        " LEFT JOIN pg_roles o ON o.oid = m.grantor WHERE m.member = %s AND m.roleid = ANY(%s)"
    )
    memberships = connection.execute(query, (role.oid, sorted(groups))).fetchall()
    for group, grantor in ownership.in_time(memberships, deadline):
        if connection.info.server_version // 10000 >= _GROUP_ROLES_SINCE:
            connections.run(connection, "REVOKE {} FROM {} GRANTED BY {} CASCADE", group, role.name, grantor)
        else:
            connections.run(connection, "REVOKE {} FROM {} CASCADE", group, role.name)
