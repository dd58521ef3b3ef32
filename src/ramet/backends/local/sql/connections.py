"""The platform's connections: over the private socket, as superuser, with settings that tenants cannot change."""

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from ramet import endpoints
from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import GONE, unseen
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import foreign, raw_names, session_settings
from ramet.errors import Unavailable

PLATFORM_ROLE = "ramet"
POOLER_ROLE = "pg_ramet_pooler"
ADMIN_ROLE = endpoints.ADMIN
DATABASE = endpoints.DATABASE

_TEMPLATES = ("template0", "template1")
_BOOTSTRAP_SUPERUSER = 10  # the platform's role, created by initdb
_INVALID = -2  # datconnlimit of a database whose removal was interrupted

_NO_SOCKET = "could not create socket"  # libpq's message when this process has no free file descriptor
_NO_CONVERSION = re.compile("conversion between .+ is not supported")
_NO_ROLE = re.compile('role ".*" does not exist', re.DOTALL)
_LOCKED_SECONDS = 3  # a prepared transaction that renames a database blocks all new sessions

# A new session locks its database in ROW EXCLUSIVE mode. It also queues behind who waits for a lock that conflicts.
# Tenants choose the classid and objid of advisory locks.
_LOCKED = """
SELECT DISTINCT datname FROM pg_locks JOIN pg_database d ON d.oid = objid
WHERE locktype = 'object' AND classid = 'pg_database'::regclass
AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""

Connection = psycopg.Connection[tuple[Any, ...]]

_PLATFORM_DATABASE = "postgres"  # no tenant owns it, and only a superuser may change its settings
# For sessions that create or update extensions.
EXTENSIONS_LOADED: Mapping[str, Any] = {"timescaledb.disable_load": "off"}
_known = session_settings.Known()
_not_entered: set[str] = set()  # the services whose tenants' database could not be entered the last time


@contextmanager
def connect(
    paths: ServicePaths, database: str = _PLATFORM_DATABASE, *, timeout_seconds: int = 10, **settings: str
) -> Iterator[Connection]:
    """Open a connection in autocommit mode, and close it at the end.

    `settings` override the usual ones (statement_timeout, lock_timeout). Raises Unavailable when the server does not
    accept connections or closes this one, and Unseen when this process cannot connect. What a statement says of another
    server (CREATE SUBSCRIPTION, dblink), and another session in the block, stays psycopg's error.
    """
    is_lost = True
    try:
        with _open(paths, database, timeout_seconds, settings) as connection:
            try:
                yield connection
            except psycopg.OperationalError:
                is_lost = connection.broken
                raise
    except psycopg.OperationalError as error:
        is_other = error.sqlstate is not None and not error.sqlstate.startswith(("08", "57P", "53300"))
        if is_other or not is_lost:
            raise
        if _NO_SOCKET in str(error):
            raise unseen(f"the server of service {paths.service_id}", error) from error
        raise Unavailable(
            "SERVER_UNREACHABLE",
            f"The server of service {paths.service_id} does not accept connections",
            str(error).strip(),
        ) from error


@contextmanager
def connect_inside(paths: ServicePaths) -> Iterator[Connection]:
    """Connect to the tenants' database, or to the platform's own if that is missing, closed or locked.

    The first session in each database after a start is slow, so one session in the tenants' database is preferred.
    After a failure the locks are looked up before the next attempt, which would wait as long as they are held.
    """
    with ExitStack() as stack:
        connection = None
        if paths.service_id not in _not_entered or not _is_locked(paths):
            _not_entered.add(paths.service_id)
            with suppress(Unavailable):
                connection = stack.enter_context(connect(paths, DATABASE, timeout_seconds=_LOCKED_SECONDS))
                _not_entered.discard(paths.service_id)
        if connection is None:
            # Psycopg keeps a connection attempt that timed out in a reference cycle. Until that is collected, the
            # attempt is a session that prevents the database from being renamed or dropped.
            gc.collect()
            connection = stack.enter_context(connect(paths))
        yield connection


def _is_locked(paths: ServicePaths) -> bool:
    with connect(paths) as connection:
        return DATABASE in locked_databases(connection)


def _port(paths: ServicePaths) -> int:
    """Return the port that names the socket: line 4 of the lock file."""
    return _line_of(paths, paths.pid_file, 3)


def _major(paths: ServicePaths) -> int:
    return _line_of(paths, paths.data / "PG_VERSION", 0)


def _line_of(paths: ServicePaths, file: Path, number: int) -> int:
    try:
        return int(files.read_existing(file).splitlines()[number])
    except (*GONE, IndexError, ValueError) as error:
        raise Unavailable(
            "SERVER_UNREACHABLE", f"The server of service {paths.service_id} is not running", str(error)
        ) from error
    except OSError as error:
        raise unseen(f"the server of service {paths.service_id}", error.strerror or error) from error


def _open(paths: ServicePaths, database: str, timeout_seconds: int, settings: Mapping[str, str]) -> Connection:
    known = _known.find(_major(paths), paths.service_id)
    if known is None:
        known = _ask_settings(paths, timeout_seconds)
    try:
        return _converted(paths, database, timeout_seconds, known, settings)
    except psycopg.OperationalError as error:
        if "unrecognized configuration parameter" not in str(error):
            raise
    known = _ask_settings(paths, timeout_seconds)
    return _converted(paths, database, timeout_seconds, known, settings)


def _converted(
    paths: ServicePaths, database: str, timeout_seconds: int, known: Mapping[str, str], settings: Mapping[str, str]
) -> Connection:
    """Connect also to a database with the encoding MULE_INTERNAL, which PostgreSQL cannot convert to UTF-8."""
    try:
        return _connected(paths, database, timeout_seconds, known, settings)
    except psycopg.OperationalError as error:
        if not _NO_CONVERSION.search(str(error)):
            raise
    return _connected(paths, database, timeout_seconds, known, {**settings, "client_encoding": "SQL_ASCII"})


def _ask_settings(paths: ServicePaths, timeout_seconds: int) -> Mapping[str, str]:
    """Query the settings that users may change, in a database in which no tenant can have set any."""
    with _connected(paths, _PLATFORM_DATABASE, timeout_seconds, {}, {}) as connection:
        try:
            found = session_settings.compiled_in(connection)
        except psycopg.errors.LockNotAvailable as error:
            raise is_locked(_PLATFORM_DATABASE) from error
    _known.remember(_major(paths), paths.service_id, found)
    return found


def _connected(
    paths: ServicePaths, database: str, timeout_seconds: int, known: Mapping[str, str], settings: Mapping[str, str]
) -> Connection:
    elsewhere = foreign.read(paths)
    return raw_names.connect(
        database,
        host=str(paths.sockets),
        port=_port(paths),
        user=PLATFORM_ROLE if elsewhere is None else _role_of(paths, elsewhere.superuser),
        application_name="ramet",
        client_encoding=settings.get("client_encoding", "UTF8"),
        sslmode="disable",
        gssencmode="disable",
        passfile="/nonexistent",
        connect_timeout=timeout_seconds,
        options=session_settings.as_options({**known, **session_settings.ours(_major(paths)), **settings}),
    )


def _role_of(paths: ServicePaths, superuser: str) -> str:
    """Return the platform's name in a copy that is being taken over: its own, once the superuser was renamed."""
    settings = {**session_settings.ours(_major(paths)), "client_encoding": "SQL_ASCII"}  # which each database accepts
    try:
        psycopg.connect(
            host=str(paths.sockets), port=_port(paths), user=superuser, dbname=_PLATFORM_DATABASE, sslmode="disable",
            gssencmode="disable", passfile="/nonexistent", application_name="ramet", connect_timeout=10,
            options=session_settings.as_options(settings),
        ).close()  # fmt: skip
    except psycopg.OperationalError as error:
        if _NO_ROLE.search(str(error)):
            return PLATFORM_ROLE
        raise
    return superuser


@dataclass(frozen=True)
class Database:
    """A database of a server. In one that is `untouched` only the platform can have created anything.

    One that `is_invalid`, because its removal was interrupted, can only be dropped.
    """

    oid: int
    name: str
    is_open: bool
    untouched: bool
    is_invalid: bool = False

    @property
    def is_template(self) -> bool:
        """Tell whether it is one of the databases that new ones are copied from."""
        return self.name in _TEMPLATES


def databases(connection: Connection, *, with_templates: bool = False) -> list[Database]:
    """Return all databases in order of name, the templates only if asked for.

    The query is simple because it runs just after a start: each operator has to be loaded into an empty cache.
    """
    rows = connection.execute(
        "SELECT oid, datname, datallowconn, datconnlimit, datdba, datacl IS NULL FROM pg_database"
    )
    found = [
        Database(
            oid,
            name,
            is_open and limit != _INVALID,
            owner == _BOOTSTRAP_SUPERUSER and is_private,
            is_invalid=limit == _INVALID,
        )
        for oid, name, is_open, limit, owner, is_private in rows
        if with_templates or name not in _TEMPLATES
    ]
    return sorted(found, key=lambda database: database.name)


def tenant_databases(connection: Connection) -> list[str]:
    """Return the databases that accept connections and that a tenant may have written to, in order of name."""
    return [each.name for each in databases(connection) if each.is_open and not each.untouched]


def locked_databases(connection: Connection) -> set[str]:
    """Return the databases in which new sessions wait for a transaction, such as a prepared one that renames them.

    Nothing ends such a session before that transaction: no timeout applies, and it does not notice that its client has
    gone. Each one takes a connection of the server away.
    """
    return {name for (name,) in rows(connection, _LOCKED)}


def check_unlocked(connection: Connection, database: str) -> None:
    """Raise Unavailable for one of the `locked_databases`, which nobody should try to enter."""
    if database in locked_databases(connection):
        raise is_locked(database)


def is_locked(database: str) -> Unavailable:
    """Return the error for one of the `locked_databases`."""
    return Unavailable("DATABASE_LOCKED", f"A transaction locks the database {raw_names.shown(database)}")


def row(connection: Connection, query: str, *parameters: Any) -> tuple[Any, ...]:
    """Return the only row of a query that always has one."""
    found = connection.execute(raw_names.encoded(query), parameters or None).fetchone()
    if found is None:
        raise AssertionError(f"BUG: no row from {query}")
    return found


def rows(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    return connection.execute(query.encode()).fetchall()


def value(connection: Connection, query: str, *parameters: Any) -> Any:
    """Return the first value of the only row of a query."""
    return row(connection, query, *parameters)[0]


def run(connection: Connection, statement: str, *names: str, **literals: str | int | None) -> None:
    """Execute a utility statement, with `names` quoted for {} and `literals` for {key}."""
    connection.execute(raw_names.composed(connection, statement, names, literals))


def query(connection: Connection, statement: str, *names: str, **literals: str | int | None) -> list[tuple[Any, ...]]:
    """Return the rows of a statement that is composed as by `run`."""
    return connection.execute(raw_names.composed(connection, statement, names, literals)).fetchall()
