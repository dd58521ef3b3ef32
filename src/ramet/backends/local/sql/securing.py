"""A fork's own credentials, and what keeps it from acting on the world outside: for any server of PostgreSQL."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import psycopg

from ramet.backends.interface.values import Server
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import (
    connections,
    logins,
    mover,
    neutralization,
    read_only_access,
    roles,
    service_roles,
    withheld_roles,
)
from ramet.backends.local.sql.closing_settings import reset_closing_settings
from ramet.backends.local.sql.connections import DATABASE, Connection
from ramet.backends.local.sql.neutralization import Inspection
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

        def change() -> dict[str, Any]:
            return _change(paths, connection, surroundings, server, neutralize=neutralize, rotates_all=rotates_all)

        try:
            changed = change()
        except psycopg.errors.LockNotAvailable:  # a prepared GRANT on a database keeps its row, and no lock shows it
            if not _end_left(paths, connection, every=True):
                raise
            ended["prepared_transactions_rolled_back"] = len(surroundings.prepared)
            changed = change()
        found = neutralization.findings(surroundings) | ended | changed
        return found, database_of(connection) == DATABASE and read_only_access.is_current(connection)


def _change(
    paths: ServicePaths, connection: Connection, surroundings: Inspection, server: Server, *, neutralize: bool,
    rotates_all: bool,
) -> dict[str, Any]:  # fmt: skip
    with connection.transaction():
        removed = reset_closing_settings(connection)
    found: dict[str, Any] = {"settings_removed": removed}
    if removed:  # one may have closed a database, in which there is something to neutralize
        surroundings = replace(surroundings, databases=connections.databases(connection, with_templates=True))
        found |= neutralization.findings(surroundings)
    found |= neutralization.neutralize(paths, connection, surroundings) if neutralize else {}
    with connection.transaction():
        found["subscriptions"] = neutralization.detach_subscriptions(connection, surroundings)
        found |= neutralization.drop_own_subscriptions(connection, found["subscriptions"])
        if neutralize and neutralization.disable_telemetry(connection):
            found["telemetry"] = "disabled"
        found["roles_rotated"] = roles.rotate(connection, server.verifier, server.wal_level, every=rotates_all)
    return found


def _end_left(paths: ServicePaths, connection: Connection, *, every: bool) -> bool:
    """Roll back the prepared transactions that change roles or databases, or `every` one; False if there is none."""
    left = neutralization.inspect(connection)
    ended = neutralization.end_prepared(paths, connection, left, every=every)
    return bool(ended["prepared_transactions_rolled_back"])


def has_neutralized(found: Mapping[str, Any]) -> bool:
    """Tell whether `secure_fork` found anything to neutralize: without that it would not have done less."""
    return any(found.get(name) for name in ("prepared_transactions", *_NEUTRALIZED))


def without_neutralization(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `secure_fork` returns when it does not neutralize, and there is nothing to neutralize."""
    return {name: value for name, value in found.items() if name not in _NEUTRALIZED}


def secure_moved(paths: ServicePaths, server: Server) -> bool:
    """Remove from a copy of a service of another Ramet what belonged to that: its logins, and the role of the copy.

    Passwords, subscriptions and prepared transactions stay, because the service is the same; those that have changed a
    role are rolled back where they prevent this. Return whether `read_only_access` is up to date. May run again.
    """
    with connections.connect_inside(paths) as connection:
        try:
            _change_moved(connection, server)
        except psycopg.errors.LockNotAvailable:
            if not _end_left(paths, connection, every=False):
                raise
            _change_moved(connection, server)
        return database_of(connection) == DATABASE and read_only_access.is_current(connection)


def _change_moved(connection: Connection, server: Server) -> None:
    with connection.transaction():
        mover.remove(connection)
        withheld_roles.withhold(connection)
        service_roles.retire_earlier_roles(connection, server.wal_level)
        service_roles.ensure_pooler_role(connection)
        logins.disable_all(connection)
