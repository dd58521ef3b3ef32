"""The platform's own connections: over the private socket, as the superuser, deaf to whatever tenants have set."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from ramet.backends.local.own_faults import GONE, unseen
from ramet.backends.local.paths import ServicePaths
from ramet.errors import Unavailable

PLATFORM_ROLE = "ramet"
POOLER_ROLE = "pg_ramet_pooler"
ADMIN_ROLE = "tsdbadmin"
DATABASE = "tsdb"

_TEMPLATES = ("template0", "template1")
_BOOTSTRAP_SUPERUSER = 10  # the platform's role, which initdb has made
_INVALID = -2  # datconnlimit of a database whose removal was interrupted

_NO_SOCKET = "could not create socket"  # libpq's words, where this process may open no more files
_LOCKED_SECONDS = 3  # a prepared transaction that renames a database keeps everybody waiting at its door

Connection = psycopg.Connection[tuple[Any, ...]]

# Tenants may ALTER DATABASE ... SET almost anything; what a client asks for on connecting wins over that.
_SETTINGS = {
    "search_path": "pg_catalog",
    "role": "none",
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "session_replication_role": "replica",
    "row_security": "off",
    "lock_timeout": "5s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "0",
    "synchronous_commit": "local",
    "standard_conforming_strings": "on",
    "escape_string_warning": "off",
    "check_function_bodies": "off",
    "jit": "off",
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "local_preload_libraries": "",
    "session_preload_libraries": "",
    # Statements that carry verifiers must not reach the log, not even when they fail.
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
    "pg_stat_statements.track": "none",
}
_SETTINGS_SINCE = {17: {"event_triggers": "off", "transaction_timeout": "0"}}


@contextmanager
def connect(
    paths: ServicePaths, database: str = "postgres", *, patience_seconds: int = 10, **settings: str
) -> Iterator[Connection]:
    """Open a connection in autocommit mode, and close it at the end.

    `settings` override the usual ones (statement_timeout, lock_timeout). Raises Unavailable when the server does not
    accept connections, also when it goes away meanwhile, and Unseen when this side cannot ask.
    """
    try:
        with psycopg.connect(
            host=str(paths.sockets),
            port=_port(paths),
            user=PLATFORM_ROLE,
            dbname=database,
            application_name="ramet",
            client_encoding="UTF8",
            sslmode="disable",
            gssencmode="disable",
            passfile="/nonexistent",
            connect_timeout=patience_seconds,
            autocommit=True,
            options=_options({**_usual_settings(paths), **settings}),
        ) as connection:
            yield connection
    except psycopg.OperationalError as error:
        if error.sqlstate is not None and not error.sqlstate.startswith(("08", "57P", "53300")):
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
    """Open a connection to the tenants' database, or where that is gone, closed or locked to the platform's own.

    The first session in a database after a start takes long: who needs one only takes that of the tenants.
    """
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(connect(paths, DATABASE, patience_seconds=_LOCKED_SECONDS))
        except Unavailable:
            connection = stack.enter_context(connect(paths))
        yield connection


def _port(paths: ServicePaths) -> int:
    """Return the port that names the socket: line 4 of the lock file."""
    try:
        return int(paths.pid_file.read_text().splitlines()[3])
    except (*GONE, IndexError, ValueError) as error:
        raise Unavailable(
            "SERVER_UNREACHABLE", f"The server of service {paths.service_id} is not running", str(error)
        ) from error
    except OSError as error:
        raise unseen(f"the server of service {paths.service_id}", error.strerror or error) from error


def _usual_settings(paths: ServicePaths) -> dict[str, str]:
    major = int((paths.data / "PG_VERSION").read_text())
    newer = (settings for since, settings in _SETTINGS_SINCE.items() if major >= since)
    return {name: value for settings in (_SETTINGS, *newer) for name, value in settings.items()}


def _options(settings: Mapping[str, str]) -> str:
    return " ".join(f"-c {name}={_escaped(value)}" for name, value in settings.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace(" ", r"\ ")


@dataclass(frozen=True)
class Database:
    """A database of a server. In one that is `untouched` nobody but the platform has ever created anything."""

    oid: int
    name: str
    is_open: bool
    untouched: bool


def databases(connection: Connection) -> list[Database]:
    """Return all databases but the templates, in order of name.

    The query is plain because the caches of a server that was just started are empty: each operator takes its time.
    """
    rows = connection.execute(
        "SELECT oid, datname, datallowconn, datconnlimit, datdba, datacl IS NULL FROM pg_database"
    )
    found = [
        Database(oid, name, is_open and limit != _INVALID, owner == _BOOTSTRAP_SUPERUSER and is_private)
        for oid, name, is_open, limit, owner, is_private in rows
        if name not in _TEMPLATES
    ]
    return sorted(found, key=lambda database: database.name)


def tenant_databases(connection: Connection) -> list[str]:
    """Return the databases that accept connections and that a tenant may have written to, in order of name."""
    return [each.name for each in databases(connection) if each.is_open and not each.untouched]


def run(connection: Connection, statement: str, *names: str, **literals: str | int | None) -> None:
    """Execute a utility statement, with `names` quoted for {} and `literals` for {key}; both may hold anything."""
    composed = sql.SQL(statement).format(
        *(sql.Identifier(name) for name in names),
        **{key: sql.Literal(value) for key, value in literals.items()},
    )
    connection.execute(composed)
