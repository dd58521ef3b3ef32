"""A server's own credentials: those of a new one, and those of a fork, which then acts on nothing outside."""

import time
from typing import Any

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections, read_only_access, roles, securing
from ramet.backends.local.sql.concurrent_changes import retry_if_altered
from ramet.backends.local.sql.connections import DATABASE, PLATFORM_ROLE, Connection
from ramet.backends.local.sql.mover import OPERATOR_OID, OPERATOR_ROLE
from ramet.errors import Unavailable
from ramet.machine.installation import extension_of
from ramet.model.service_type import ServiceType

# The operator makes the platform's role as the owner of the first database, which is replaced by a tenants' one.
_TAKE_OVER = f"""
ALTER ROLE {PLATFORM_ROLE} SUPERUSER CREATEDB CREATEROLE REPLICATION BYPASSRLS LOGIN;
SELECT format('DROP DATABASE %I', datname) FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba
WHERE datname = '{DATABASE}' AND rolname = '{PLATFORM_ROLE}' \\gexec
"""  # noqa: S608 - all of it is ours
_RESTART_SECONDS, _TRIES = 120.0, 50
_WORKERS_RUN = "SELECT current_setting('max_logical_replication_workers') <> '0'"
# What the operator has granted as a role that goes, the superuser of initdb has granted.
_OWN_GRANTS = "UPDATE pg_auth_members SET grantor = 10 WHERE grantor = %s"
_END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usesysid = %s"
# The operator makes this role when it starts a primary, and this one was started as a standby.
_STREAMER = "streaming_replica"
_READS_FILES = (
    *("pg_ls_dir(text, boolean, boolean)", "pg_stat_file(text, boolean)"),
    *("pg_read_binary_file(text)", "pg_read_binary_file(text, bigint, bigint, boolean)"),
)
_OWN_STREAMER = rf"""
SELECT 'CREATE ROLE {_STREAMER} LOGIN REPLICATION'
WHERE NOT EXISTS (SELECT FROM pg_authid WHERE rolname = '{_STREAMER}') \gexec
ALTER ROLE {_STREAMER} LOGIN REPLICATION;
{"".join(f"GRANT EXECUTE ON FUNCTION pg_catalog.{name} TO {_STREAMER};" for name in _READS_FILES)}
"""  # noqa: S608 - all of it is ours
_DROP_SLOTS = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"


def secure_new(place: Place, server: Server) -> None:
    """Create the admin, the tenants' database and its extensions; may run again."""
    take_over(place, server.service_id)
    roles.bootstrap(place.paths(server), server.verifier, _extensions(place, server.service_type), server.wal_level)


def take_over(place: Place, service_id: str) -> None:
    """Make the platform's role a superuser; the operator gives it a password at about the same time."""
    retry_if_altered(lambda: place.run_sql(service_id, _TAKE_OVER))


def secure_fork(place: Place, server: Server, *, neutralize: bool) -> dict[str, Any]:
    """Give a fork new passwords for all login roles, and with `neutralize` disable what acts on the outside world.

    The replication slots of its parent are dropped: they survive the adoption of a volume, and would retain WAL.
    """
    paths = place.paths(server)
    own_operator(paths)
    found, is_current = securing.secure_fork(paths, server, neutralize=neutralize)
    with connections.connect_inside(paths) as connection:
        connection.execute(_DROP_SLOTS)
        let_standbys_stream(connection)
    if not is_current:
        read_only_access.renew(paths)
    return found


def let_jobs_run(place: Place, server: Server) -> None:
    """Give a secured fork the settings of later starts; return when the operator has restarted its server with them.

    Raises Unavailable when that takes too long. May run again.
    """
    if place.has_first_settings(server.service_id):
        place.apply(server, Phase.CLOSED)
    deadline = time.monotonic() + _RESTART_SECONDS
    while place.run_sql_until_true(server.service_id, _WORKERS_RUN, _TRIES) != "t":
        if time.monotonic() > deadline:
            raise Unavailable(
                "SETTING_LATE", f"The server of service {server.service_id} was not restarted for its jobs"
            )


def secure_copy(place: Place, server: Server, *, neutralize: bool, takes_place: bool) -> dict[str, Any]:
    """Give a promoted copy of a service of another Ramet what the operator needs, and remove what belonged to that.

    With `takes_place` the service is the same: passwords and subscriptions stay. Otherwise the admin gets its own
    password. Return what was changed. May run again.
    """
    paths = place.paths(server)
    own_operator(paths)
    found: dict[str, Any] = {}
    if takes_place:
        is_current = securing.secure_moved(paths, server)
    else:
        found, is_current = securing.secure_fork(paths, server, neutralize=neutralize, rotates_all=neutralize)
    place.run_sql(server.service_id, _OWN_STREAMER)
    if not is_current:
        read_only_access.renew(paths)
    return found


def let_standbys_stream(connection: Connection) -> None:
    """Give the operator's role for its standbys back what every role that is not the platform's was deprived of."""
    connection.execute("UPDATE pg_authid SET rolreplication = true WHERE rolname = %s", (_STREAMER,))


def own_operator(paths: ServicePaths) -> None:
    """Give the operator a superuser of its own where it has the one that lasts as long as a move. May run again."""
    with connections.connect(paths) as connection:
        with connection.transaction():
            if connection.execute("DELETE FROM pg_authid WHERE oid = %s", (OPERATOR_OID,)).rowcount:
                role = "CREATE ROLE {} SUPERUSER CREATEDB CREATEROLE REPLICATION BYPASSRLS LOGIN"
                connections.run(connection, role, OPERATOR_ROLE)
            connection.execute(_OWN_GRANTS, (OPERATOR_OID,))
        connection.execute(_END_SESSIONS, (OPERATOR_OID,))


def _extensions(place: Place, service_type: ServiceType) -> tuple[str, ...]:
    own = extension_of(service_type)
    wanted = [own, "vector" if service_type is ServiceType.TIMESERIESDB else None]
    return tuple(dict.fromkeys(name for name in wanted if name is not None and name in place.site.extensions))
