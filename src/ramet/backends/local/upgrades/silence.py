"""Nothing that tenants have defined is executed while a superuser restores definitions or counts rows."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.raw_names import shown
from ramet.backends.local.sql.tenant_code import message_of
from ramet.backends.local.upgrades import domain_checks, tenant_functions
from ramet.errors import Failed
from ramet.ids import new_id


def begin(connection: Connection, database: str, token: str) -> None:
    """Silence the functions and the checks of domains in a database, and keep them behind a token. May run twice."""
    if connection.execute("SELECT FROM pg_language WHERE lanname = 'plpgsql'").fetchone() is None:
        raise Failed(
            "UPGRADE_FAILED",
            f"Database {shown(database)} does not have the language plpgsql, which an upgrade needs",
            "CREATE EXTENSION plpgsql in it, then upgrade once more.",
        )
    domain_checks.silence(connection, token)
    tenant_functions.silence(connection, token)


def end(connection: Connection, database: str, token: str) -> None:
    """Give all of them back at once: nothing is in force before the last definition was parsed. May run twice.

    Raises Failed for a definition that the new version refuses.
    """
    with connection.transaction():
        _parse(tenant_functions.parse_definitions(connection, token), database)
        _parse(domain_checks.parse_definitions(connection, token), database)
        tenant_functions.give_back(connection, token)
        domain_checks.give_back(connection)


@contextmanager
def silenced(connection: Connection, database: str) -> Iterator[None]:
    """Silence a database for this session alone, and undo it at the end."""
    with connection.transaction(force_rollback=True):
        begin(connection, database, new_id())
        yield


def _parse(definitions: Iterator[str], database: str) -> None:
    name = ""
    try:
        for name in definitions:  # noqa: B007 - it is what the error is about
            pass
    except psycopg.Error as error:
        if not name or isinstance(error, psycopg.OperationalError):  # it is not about a definition
            raise
        raise Failed(
            "UPGRADE_FAILED",
            f"The new version refuses {shown(name)} in database {shown(database)}: {message_of(error)}",
            "Change it, or drop it, then upgrade once more.",
        ) from error
