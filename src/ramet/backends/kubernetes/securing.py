"""A server's own credentials: those of a new one, and those of a fork, which then acts on nothing outside."""

from typing import Any

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.local.sql import connections, read_only_access, roles, securing
from ramet.backends.local.sql.connections import DATABASE, PLATFORM_ROLE
from ramet.errors import Unavailable
from ramet.machine.installation import extension_of
from ramet.model.service import ServiceType

# The operator makes the platform's role as the owner of the first database, which is replaced by a tenants' one.
_TAKE_OVER = f"""
ALTER ROLE {PLATFORM_ROLE} SUPERUSER CREATEDB CREATEROLE REPLICATION BYPASSRLS LOGIN;
SELECT format('DROP DATABASE %I', datname) FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba
WHERE datname = '{DATABASE}' AND rolname = '{PLATFORM_ROLE}' \\gexec
"""  # noqa: S608 - all of it is ours
_ATTEMPTS = 5
_DROP_SLOTS = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"


def secure_new(place: Place, server: Server) -> None:
    """Create the admin, the tenants' database and its extensions; may run again."""
    take_over(place, server.service_id)
    roles.bootstrap(place.paths(server), server.verifier, _extensions(place, server.service_type), server.wal_level)


def take_over(place: Place, service_id: str) -> None:
    """Make the platform's role a superuser; the operator gives it a password at about the same time."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            place.run_sql(service_id, _TAKE_OVER)
            return
        except Unavailable as error:
            if "tuple concurrently updated" not in error.details or attempt == _ATTEMPTS:
                raise


def secure_fork(place: Place, server: Server, *, neutralize: bool) -> dict[str, Any]:
    """Give a fork new passwords for all login roles, and with `neutralize` disable what acts on the outside world.

    The replication slots of its parent are dropped: they survive the adoption of a volume, and would retain WAL.
    """
    paths = place.paths(server)
    found, is_current = securing.secure_fork(paths, server, neutralize=neutralize)
    with connections.connect_inside(paths) as connection:
        connection.execute(_DROP_SLOTS)
    if not is_current:
        read_only_access.renew(paths)
    return found


def _extensions(place: Place, service_type: ServiceType) -> tuple[str, ...]:
    own = extension_of(service_type)
    wanted = [own, "vector" if service_type is ServiceType.TIMESERIESDB else None]
    return tuple(dict.fromkeys(name for name in wanted if name is not None and name in place.site.extensions))
