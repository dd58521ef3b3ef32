"""List and roll back the prepared transactions of a fork (docs/hazards.md, 15).

Those that change shared catalogs (roles, passwords, memberships, databases) are rolled back in every fork: they lock
the rows that `roles.rotate` changes, and if they were committed later, passwords of the parent would become valid.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import closed_databases, connections
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.raw_names import database_of, shown
from ramet.errors import Failed

_PREPARED = "SELECT prepared, dbid, gid, ownerid = 10 FROM pg_prepared_xact()"
# DDL keeps its lock on the catalogs that it changes until its transaction ends. Locks on shared catalogs have no
# database. The locks of a transaction are found by the lock on its own transaction ID.
_SHARED = """
WITH locks AS MATERIALIZED (SELECT * FROM pg_lock_status() WHERE granted)
SELECT p.gid FROM pg_prepared_xact() p JOIN locks own ON own.transactionid = p.transaction
WHERE EXISTS (SELECT FROM locks l WHERE l.virtualtransaction = own.virtualtransaction
    AND l.locktype = 'relation' AND l.database = 0 AND l.mode <> 'AccessShareLock')
"""
# What has changed the row of a role may be a savepoint, which has a later ID than its transaction. One of a session has
# a lock on its ID, and one of a prepared transaction has none any more.
_CHANGING_ROLE = """
WITH locks AS MATERIALIZED (SELECT * FROM pg_lock_status() WHERE granted)
SELECT p.dbid, p.gid FROM pg_prepared_xact() p JOIN locks own ON own.transactionid = p.transaction
JOIN pg_authid a ON a.oid = %s AND age(a.xmax) <= age(p.transaction)
WHERE EXISTS (SELECT FROM locks l WHERE l.virtualtransaction = own.virtualtransaction
    AND l.relation = 'pg_authid'::regclass AND l.mode = 'RowExclusiveLock')
AND NOT EXISTS (SELECT FROM locks l WHERE l.transactionid = a.xmax AND l.pid IS NOT NULL)
"""
_OWNED = """
SELECT FROM pg_shdepend s WHERE s.dbid = l.database AND s.classid = 'pg_class'::regclass AND s.objid = l.relation
AND s.refclassid = 'pg_authid'::regclass AND s.refobjid = %(role)s AND s.deptype = 'o'
"""
# What makes an object of a role, or grants something to it, locks the role. What a role has prepared nobody else but a
# superuser can end, also when the role is gone, which then has its number as its name.
_ENDING_WITH = """
WITH locks AS MATERIALIZED (SELECT * FROM pg_lock_status() WHERE granted)
SELECT p.dbid, p.gid FROM pg_prepared_xact() p
WHERE p.ownerid = %(role)s OR p.ownerid::regrole::text = p.ownerid::text
OR EXISTS (SELECT FROM locks own JOIN locks l ON l.virtualtransaction = own.virtualtransaction
    WHERE own.transactionid = p.transaction
    AND l.locktype = 'object' AND l.classid = 'pg_authid'::regclass AND l.objid = %(role)s)
"""
# The locks of a prepared transaction have no process.
_LOCKING_OWNED = f"""
SELECT EXISTS (SELECT FROM pg_lock_status() l WHERE l.granted AND l.pid IS NULL AND EXISTS ({_OWNED}))
"""  # noqa: S608 - all of it is ours
_LOCKING_EXTENSIONS = """
WITH locks AS MATERIALIZED (SELECT * FROM pg_lock_status() WHERE granted)
SELECT p.gid FROM pg_prepared_xact() p JOIN locks own ON own.transactionid = p.transaction
WHERE EXISTS (SELECT FROM locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_authid a ON a.oid = c.relowner
    JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
    WHERE l.virtualtransaction = own.virtualtransaction AND a.rolsuper AND a.oid <> 10
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
ORDER BY 1
"""


@dataclass(frozen=True)
class Prepared:
    """A prepared transaction, and whether it changes shared catalogs.

    Nobody but a superuser can end one that `is_platforms`, of the role with oid 10.
    """

    database_oid: int
    name: str
    changes_shared: bool
    is_platforms: bool = False


def find(connection: Connection) -> list[Prepared]:
    """Return the prepared transactions of all databases, oldest first."""
    found = connection.execute(_PREPARED).fetchall()
    if not found:
        return []
    shared = {name for (name,) in connection.execute(_SHARED).fetchall()}
    return [Prepared(oid, name, name in shared, is_platforms) for _, oid, name, is_platforms in sorted(found)]


def changing_role(connection: Connection, role_oid: int) -> list[Prepared]:
    """Return the prepared transactions that may have changed a role whose row is locked, unless a session has."""
    found = connection.execute(_CHANGING_ROLE, (role_oid,)).fetchall()
    return [Prepared(oid, name, changes_shared=True) for oid, name in found]


def ending_with(connection: Connection, role_oid: int) -> list[Prepared]:
    """Return the prepared transactions that end when a role is dropped: its own, those of roles that are gone already,
    and those that have made something for it, but not those of others that lock a table of it.
    """
    found = connection.execute(_ENDING_WITH, {"role": role_oid}).fetchall()
    return [Prepared(oid, name, changes_shared=False) for oid, name in found]


def lock_owned(connection: Connection, role_oid: int) -> bool:
    """Tell whether prepared transactions, of whomever, lock a table that a role owns."""
    return connection.execute(_LOCKING_OWNED, {"role": role_oid}).fetchone() == (True,)


def locking_extensions(connection: Connection) -> list[str]:
    """Return the names of those that have even read relations of extensions of superusers in this database.

    The platform's own superuser, the first one, is none of these.
    """
    return [str(name) for (name,) in connection.execute(_LOCKING_EXTENSIONS).fetchall()]


def roll_back_here(connection: Connection, names: Iterable[str]) -> None:
    """Roll back prepared transactions of the database of a session."""
    for name in names:
        connections.run(connection, "ROLLBACK PREPARED {name}", name=name)


def roll_back(
    paths: ServicePaths, connection: Connection, databases: Sequence[connections.Database], wanted: Sequence[Prepared]
) -> None:
    """Roll prepared transactions back, each in its own database; `connection` is an open one, which is reused.

    `databases` are all of the server: whoever may connect to a template can prepare a transaction there. One that is
    closed cannot be opened while a transaction of another one locks its row, so it has its turn after that. Raises
    Failed when closed databases lock each other.
    """
    concerned = {each.database_oid for each in wanted}
    left = sorted((each for each in databases if each.oid in concerned), key=lambda each: not each.is_open)
    while left:
        locked = [each for each in left if not _roll_back_in(paths, connection, each, wanted)]
        if len(locked) == len(left):
            raise _lock_each_other(paths, locked)
        left = locked


def _roll_back_in(
    paths: ServicePaths, connection: Connection, database: connections.Database, wanted: Sequence[Prepared]
) -> bool:
    """Roll back the transactions of one database; False if it is closed, and cannot be opened now."""
    try:
        with _inside(paths, connection, database) as session:
            roll_back_here(session, (each.name for each in wanted if each.database_oid == database.oid))
    except psycopg.errors.LockNotAvailable:
        if database.is_open:
            raise
        return False
    return True


def _lock_each_other(paths: ServicePaths, closed: Sequence[connections.Database]) -> Failed:
    names = ", ".join(shown(each.name) for each in closed)
    return Failed(
        "PREPARED_TRANSACTIONS_LOCKED",
        f"Prepared transactions in service {paths.service_id} lock databases that accept no connections: {names}",
        "In the parent, end the prepared transactions of other databases that alter these, then allow connections to"
        " them (ALTER DATABASE ... ALLOW_CONNECTIONS true), and end theirs; pg_prepared_xacts lists all.",
    )


@contextlib.contextmanager
def _inside(paths: ServicePaths, connection: Connection, database: connections.Database) -> Iterator[Connection]:
    """Yield a session in a database, also in one that accepts no connections."""
    if database_of(connection) == database.name:
        yield connection
        return
    with closed_databases.entered(paths, database) as session:
        yield session
