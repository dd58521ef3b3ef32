"""What a database contains, asked of PostgreSQL's catalogs in a session whose search path is pg_catalog."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import psycopg

from ramet.endpoints import DATABASE
from ramet.errors import Unavailable
from ramet.workbench.sessions import Limits, NoDatabase, Place, Workbench

LIMITS = Limits(10, settings={"search_path": "pg_catalog", "lock_timeout": "1s"})
MOST_DATABASES = 200
Read = TypeVar("Read")
_DATABASES = """
SELECT textsend(datname::text) FROM pg_database
WHERE datallowconn AND NOT datistemplate AND has_database_privilege(oid, 'CONNECT')
ORDER BY datname <> %s, datname LIMIT %s
"""


@contextmanager
def catalog_session(workbench: Workbench, place: Place, limits: Limits = LIMITS) -> Iterator[psycopg.Connection]:
    """Yield a session that reads the catalogs of a database. Raises Unavailable where that takes too long."""
    try:
        with workbench.session(place, limits) as session:
            yield session
    except (psycopg.Error, UnicodeError) as error:
        raise Unavailable(
            "CATALOG_NOT_READ",
            f"The catalogs of {place.database[:64]!r} in {place.service.name} could not be read: {str(error).strip()}",
            "Try again later.",
        ) from error


def list_databases(session: psycopg.Connection) -> Sequence[str]:
    """Return the databases of a service that the session's role can connect to, that of tenants first.

    A name that is no UTF-8 has \\xff for such a byte.
    """
    return [
        name.decode(errors="backslashreplace") for (name,) in session.execute(_DATABASES, (DATABASE, MOST_DATABASES))
    ]


def read_with_databases(
    workbench: Workbench, place: Place, read: Callable[[psycopg.Connection], Read], limits: Limits = LIMITS
) -> tuple[Read | None, list[str]]:
    """Return what `read` finds in a database, or None where there is no such one, and the databases that there are.

    Raises Unavailable as `catalog_session` does.
    """
    try:
        with catalog_session(workbench, place, limits) as session:
            return read(session), list(dict.fromkeys([*list_databases(session), place.database]))
    except NoDatabase:
        with catalog_session(workbench, replace(place, database=DATABASE)) as session:
            return None, list(list_databases(session))
