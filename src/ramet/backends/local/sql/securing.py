"""A fork's own credentials, and what keeps it from acting on the world outside: for any server of PostgreSQL."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ramet.backends.interface.values import Server
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections, logins, mover, neutralization, read_only_access, roles, service_roles
from ramet.backends.local.sql.closing_settings import reset_closing_settings
from ramet.backends.local.sql.connections import DATABASE
from ramet.backends.local.sql.raw_names import database_of

_NEUTRALIZED = ("user_mappings", "jobs", "telemetry")  # what a report has of a neutralized fork only


def secure_fork(
    paths: ServicePaths, server: Server, *, neutralize: bool, rotates_all: bool = True
) -> tuple[dict[str, Any], bool]:
    """Give a fork new passwords, and with `neutralize` disable what acts on the world outside. May run again.

    Without `rotates_all` only the admin gets another password. Return what was found and changed, and whether
    `read_only_access` is up to date.
    """
    with connections.connect_inside(paths) as connection:
        surroundings = neutralization.inspect(connection)
        # First, because a prepared transaction may hold locks on the rows that are changed below.
        ended = neutralization.end_prepared(paths, connection, surroundings, every=neutralize)
        removed = reset_closing_settings(connection)
        if removed:  # one may have closed a database, in which there is something to neutralize
            databases = connections.databases(connection, with_templates=True)
            surroundings = replace(surroundings, databases=databases)
        found = neutralization.findings(surroundings) | ended | {"settings_removed": removed}
        found |= neutralization.neutralize(paths, connection, surroundings) if neutralize else {}
        with connection.transaction():
            found["subscriptions"] = neutralization.detach_subscriptions(connection, surroundings)
            found |= neutralization.drop_own_subscriptions(connection, found["subscriptions"])
            if neutralize and neutralization.disable_telemetry(connection):
                found["telemetry"] = "disabled"
            found["roles_rotated"] = roles.rotate(connection, server.verifier, server.wal_level, every=rotates_all)
        return found, database_of(connection) == DATABASE and read_only_access.is_current(connection)


def has_neutralized(found: Mapping[str, Any]) -> bool:
    """Tell whether `secure_fork` found anything to neutralize: without that it would not have done less."""
    return any(found.get(name) for name in ("prepared_transactions", *_NEUTRALIZED))


def without_neutralization(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `secure_fork` returns when it does not neutralize, and there is nothing to neutralize."""
    return {name: value for name, value in found.items() if name not in _NEUTRALIZED}


def secure_moved(paths: ServicePaths, server: Server) -> bool:
    """Remove from a copy of a service of another Ramet what belonged to that: its logins, and the role of the copy.

    Passwords, subscriptions and prepared transactions stay, because the service is the same. Return whether
    `read_only_access` is up to date. May run again.
    """
    with connections.connect_inside(paths) as connection:
        with connection.transaction():
            mover.remove(connection)
            service_roles.retire_earlier_roles(connection, server.wal_level)
            service_roles.ensure_pooler_role(connection)
            logins.disable_all(connection)
        return database_of(connection) == DATABASE and read_only_access.is_current(connection)
