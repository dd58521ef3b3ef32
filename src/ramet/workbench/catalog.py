"""What a database contains, asked of PostgreSQL's catalogs in a session whose search path is pg_catalog."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import psycopg

from ramet.endpoints import DATABASE
from ramet.errors import Unavailable
from ramet.workbench.sessions import Limits, Place, Workbench

LIMITS = Limits(10, settings={"search_path": "pg_catalog", "lock_timeout": "1s"})
MOST_DATABASES = 200
_DATABASES = """
SELECT datname FROM pg_database
WHERE datallowconn AND NOT datistemplate AND has_database_privilege(oid, 'CONNECT')
ORDER BY datname <> %s, datname LIMIT %s
"""


@contextmanager
def catalog_session(workbench: Workbench, place: Place, limits: Limits = LIMITS) -> Iterator[psycopg.Connection]:
    """Yield a session that reads the catalogs of a database. Raises Unavailable where that takes too long."""
    try:
        with workbench.session(place, limits) as session:
            yield session
    except psycopg.Error as error:
        raise Unavailable(
            "CATALOG_NOT_READ",
            f"The catalogs of {place.database[:64]!r} in {place.service.name} could not be read: {str(error).strip()}",
            "Try again later.",
        ) from error


def list_databases(session: psycopg.Connection) -> Sequence[str]:
    """Return the databases of a service that the session's role can connect to, that of tenants first."""
    return [name for (name,) in session.execute(_DATABASES, (DATABASE, MOST_DATABASES))]


def databases_of(workbench: Workbench, place: Place) -> Sequence[str]:
    """Return the databases of a service, whichever one the place names."""
    with catalog_session(workbench, replace(place, database=DATABASE)) as session:
        return list_databases(session)
