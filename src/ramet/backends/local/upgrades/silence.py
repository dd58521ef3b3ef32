"""Nothing that tenants have defined is executed while a superuser restores their definitions."""

from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.raw_names import shown
from ramet.backends.local.upgrades import domain_checks, tenant_functions
from ramet.errors import Failed


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


def end(connection: Connection, token: str) -> None:
    """Give all of them back at once: nothing is in force before the last definition was parsed. May run twice."""
    with connection.transaction():
        tenant_functions.parse_definitions(connection, token)
        domain_checks.parse_definitions(connection, token)
        tenant_functions.give_back(connection, token)
        domain_checks.give_back(connection)
