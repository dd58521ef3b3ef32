"""Prepared transactions that came along with a fork (docs/hazards.md, 15): which there are, and rolling them back.

Those that change what all databases share (roles, passwords, memberships, databases) are rolled back on every fork.
They lock the rows that `roles.rotate` changes; and committed later, they would let the parent's passwords in.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection

_PREPARED = "SELECT prepared, dbid, gid FROM pg_prepared_xact()"
# A definition keeps the lock on the catalog that it changes until its transaction ends. Shared catalogs are in no
# database. What a transaction locks is found by its lock on its own number.
_SHARED = """
WITH locks AS MATERIALIZED (SELECT * FROM pg_lock_status() WHERE granted)
SELECT p.gid FROM pg_prepared_xact() p JOIN locks own ON own.transactionid = p.transaction
WHERE EXISTS (SELECT FROM locks l WHERE l.virtualtransaction = own.virtualtransaction
    AND l.locktype = 'relation' AND l.database = 0 AND l.mode <> 'AccessShareLock')
"""


@dataclass(frozen=True)
class Prepared:
    """A prepared transaction, and whether it changes what all databases share."""

    database_oid: int
    name: str
    changes_shared: bool


def find(connection: Connection) -> list[Prepared]:
    """Return the prepared transactions of all databases, oldest first."""
    found = connection.execute(_PREPARED).fetchall()
    if not found:
        return []
    shared = {name for (name,) in connection.execute(_SHARED).fetchall()}
    return [Prepared(oid, name, name in shared) for _, oid, name in sorted(found)]


def roll_back(
    paths: ServicePaths, connection: Connection, databases: Sequence[connections.Database], wanted: Sequence[Prepared]
) -> None:
    """Roll prepared transactions back, each in its own database; `connection` is one that is open already."""
    for database in databases:
        names = [each.name for each in wanted if each.database_oid == database.oid]
        if names:
            with _inside(paths, connection, database) as session:
                for name in names:
                    connections.run(session, "ROLLBACK PREPARED {name}", name=name)


@contextlib.contextmanager
def _inside(paths: ServicePaths, connection: Connection, database: connections.Database) -> Iterator[Connection]:
    """Yield a session in a database, which is opened for it when it accepts no connections."""
    if connection.info.dbname == database.name:
        yield connection
        return
    with contextlib.ExitStack() as stack:
        if not database.is_open:
            _let_in(connection, database, allowed=True)
            stack.callback(_let_in, connection, database, allowed=False)
        yield stack.enter_context(connections.connect(paths, database.name))


def _let_in(connection: Connection, database: connections.Database, *, allowed: bool) -> None:
    connection.execute("UPDATE pg_database SET datallowconn = %s WHERE oid = %s", (allowed, database.oid))
