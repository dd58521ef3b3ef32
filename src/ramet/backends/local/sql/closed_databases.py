"""Sessions of the platform in databases that accept no connections, which are open while it connects.

Their connection limit stays as it is: it could not be restored after a kill. Tenants who come in at that moment go.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection

# UPDATE takes a transaction ID before it waits for another transaction, and this does not.
_AWAIT = "SELECT FROM pg_database WHERE oid = %s AND NOT datallowconn FOR UPDATE"
_OPEN = """
UPDATE pg_database d SET datallowconn = true WHERE d.oid = %s AND NOT datallowconn
RETURNING ARRAY(SELECT pid FROM pg_stat_activity WHERE datid = d.oid)
"""
_CLOSE = "UPDATE pg_database SET datallowconn = false WHERE oid = %s"
_WAIT_LONGER = "SET lock_timeout = '30s'"
# On Kubernetes the platform's role is not the first superuser: that is the operator's.
_END_LATER_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datid = %s AND pid <> ALL(%s) AND backend_type = 'client backend'
AND usesysid NOT IN (SELECT oid FROM pg_authid WHERE rolsuper)
"""


@contextmanager
def entered(paths: ServicePaths, database: connections.Database, **settings: Any) -> Iterator[Connection]:
    """Connect to a database; one that accepts no connections is closed again as soon as that is done.

    `settings` are those of `connections.connect`. Raises psycopg.errors.LockNotAvailable when a transaction locks the
    row of such a database.
    """
    with ExitStack() as stack:
        with nullcontext() if database.is_open else _opened(paths, database.oid):
            settings = {"lock_timeout": "1s"} | settings
            connection = stack.enter_context(connections.connect(paths, database.name, **settings))
        yield connection


@contextmanager
def _opened(paths: ServicePaths, oid: int) -> Iterator[None]:
    """Open a database. Of several sessions of the platform at once, the one that has opened it closes it.

    The transaction that closes it begins at once, so that only its commit is left, which waits for nobody. Who alters
    the database at that moment waits for it, and is refused. Who has altered it before that, and stays in the
    transaction, is waited for, for half a minute, and LockNotAvailable raised.

    Nothing closes a database that is left open: by a kill of this process or of the server before that commit, or by a
    transaction that lasts longer.
    """
    with connections.connect(paths, lock_timeout="1s") as outside:
        outside.execute(_AWAIT, (oid,))
        opened = outside.execute(_OPEN, (oid,)).fetchone()
        if opened is None:
            yield
            return
        try:
            outside.execute("BEGIN")
            outside.execute(_CLOSE, (oid,))
        except psycopg.errors.LockNotAvailable:
            outside.execute("ROLLBACK")
            outside.execute(_WAIT_LONGER)
            outside.execute(_CLOSE, (oid,))
            outside.execute(_END_LATER_SESSIONS, (oid, *opened))
            raise
        try:
            yield
        finally:
            outside.execute("COMMIT")
            outside.execute(_END_LATER_SESSIONS, (oid, *opened))
