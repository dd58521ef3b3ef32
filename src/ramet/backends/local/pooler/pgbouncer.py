"""The PgBouncer of this host, and its configuration as a pure function.

Each login queries PostgreSQL for the role's SCRAM verifier, and the client's proof is passed on to the server. So a
changed password or a new role takes effect at once, and no password is stored.
"""

import os
import re
import resource
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ramet.backends.local.sql.connections import DATABASE, POOLER_ROLE
from ramet.backends.local.sql.pooler_logins import AUTH_QUERY, READ_ONLY_OPTIONS, TRANSACTION_POOL
from ramet.errors import Invalid
from ramet.machine.programs import complete
from ramet.model.passwords import new_password, scram_verifier

LOG = "pgbouncer.log"
USERLIST = "userlist.txt"
_VERSION = re.compile(r"PgBouncer (\d+)\.(\d+)")
_OLDEST = (1, 17)
_USUAL_PLACES = ("pgbouncer", "/usr/sbin/pgbouncer", "/usr/local/bin/pgbouncer")
_READS_OPTIONS = (1, 20)
_KEEPS_PREPARED_STATEMENTS = (1, 21)
_CLIENTS = 2000
_OTHER_FILES = 100
_NOT_POOLED = 15


@dataclass(frozen=True)
class Program:
    """An installed PgBouncer."""

    path: Path
    version: tuple[int, int]


@dataclass(frozen=True)
class Pooling:
    """The address that a PgBouncer listens on, and the private sockets of the servers behind it.

    `connections` is the limit of each server. `balances` says that it is the endpoint of several servers: it serves
    every database in round-robin order, without a transaction pool. `reads_only` says that all servers are replicas.
    `certificate` and `key` are None when endpoints have no TLS. With another `certificate_mark` PgBouncer is to load
    them again.
    """

    addresses: str
    port: int
    sockets: tuple[Path, ...]
    server_port: int
    connections: int
    certificate: Path | None
    key: Path | None
    certificate_mark: str = ""
    balances: bool = False
    reads_only: bool = False


def find_pgbouncer(environ: Mapping[str, str] = os.environ) -> Program:
    """Return the PgBouncer of this host. Raises Invalid, saying what to install, when none is recent enough."""
    named = environ.get("RAMET_PGBOUNCER")
    for name in (named,) if named else _USUAL_PLACES:
        path = shutil.which(name, path=environ.get("PATH"))
        version = _version_of(path) if path else None
        if path and version is not None and version >= _OLDEST:
            return Program(Path(path), version)
    raise Invalid(
        "POOLER_MISSING",
        "A pooler needs PgBouncer 1.17 or later, which is not installed on this host",
        "Install it (Debian: pgbouncer), or name the program in RAMET_PGBOUNCER.",
    )


def describe_pgbouncer() -> str:
    """Say in a sentence whether services can have poolers on this host."""
    try:
        found = find_pgbouncer()
    except Invalid as error:
        return f"Services cannot have poolers, and replica sets can have one node only: {error}"
    major, minor = found.version
    return f"PgBouncer {major}.{minor} in {found.path}. {advice_for_clients(found)}".strip()


def advice_for_clients(program: Program) -> str:
    """Return what clients of a transaction pool must take care of, or an empty text.

    Before PgBouncer 1.21 a prepared statement does not exist on the next server, or its name is in use (42P05, 26000).
    """
    if program.version >= _KEEPS_PREPARED_STATEMENTS:
        return ""
    return (
        f"In the transaction pool ({TRANSACTION_POOL}) clients must not prepare statements (psycopg: "
        "prepare_threshold=None; JDBC: prepareThreshold=0); PgBouncer 1.21 and later support them."
    )


def _version_of(path: str) -> tuple[int, int] | None:
    found = _VERSION.search(complete([path, "--version"]).stdout)
    return None if found is None else (int(found[1]), int(found[2]))


def pgbouncer_ini(pooling: Pooling, program: Program, home: Path) -> str:
    """Return the configuration file of the PgBouncer that works in `home`."""
    settings = {**_listening(pooling, home), **_passwords(home), **_pools(pooling, program)}
    mark = [f"; certificate {pooling.certificate_mark}"] if pooling.certificate_mark else []
    lines = [
        "; Written by Ramet; overwritten at each start.",
        *mark,
        "[databases]",
        *_databases(pooling),
        "[pgbouncer]",
    ]
    return "\n".join([*lines, *(f"{name} = {value}" for name, value in settings.items())]) + "\n"


def userlist() -> str:
    """Return the auth_file: only the role of the auth_query, with a random password.

    Without an entry that role would have an empty password, and PgBouncer would accept a client that sends one.
    """
    return f'"{POOLER_ROLE}" "{scram_verifier(new_password()).reveal()}"\n'


def _databases(pooling: Pooling) -> list[str]:
    """Return the [databases] section. Half of the server's connections stay available to the direct endpoint."""
    where = f"host={','.join(map(str, pooling.sockets))} port={pooling.server_port}"
    half = len(pooling.sockets) * max(4, (pooling.connections - _NOT_POOLED) // 2)
    if pooling.balances:
        return [f"* = {where} {_at_most(half)}"]
    return [
        f"{DATABASE} = {where} pool_mode=session {_at_most(half // 2)}",
        f"{TRANSACTION_POOL} = {where} dbname={DATABASE} pool_mode=transaction {_at_most(half // 2)}",
    ]


def _at_most(connections: int) -> str:
    # auth_user is set for each database: a global one makes PgBouncer 1.18 wait for a server when a client connects to
    # its admin database, pgbouncer.
    return f"pool_size={connections} max_db_connections={connections} auth_user={POOLER_ROLE}"


def _listening(pooling: Pooling, home: Path) -> dict[str, str]:
    settings = {
        "listen_addr": pooling.addresses,
        "listen_port": str(pooling.port),
        "unix_socket_dir": "",
        "logfile": str(home / LOG),
        "log_connections": "0",
        "log_disconnections": "0",
        "log_stats": "0",
        "client_tls_sslmode": "disable",
        "server_tls_sslmode": "disable",
    }
    if pooling.certificate is not None:
        settings |= {
            "client_tls_sslmode": "require",
            "client_tls_cert_file": str(pooling.certificate),
            "client_tls_key_file": str(pooling.key),
            "client_tls_protocols": "secure",
        }
    return settings


def _passwords(home: Path) -> dict[str, str]:
    return {
        "auth_type": "scram-sha-256",
        "auth_file": str(home / USERLIST),
        "auth_query": AUTH_QUERY,
        "admin_users": "",
        "stats_users": "",
    }


def _pools(pooling: Pooling, program: Program) -> dict[str, str]:
    settings = {
        "pool_mode": "session",
        "max_client_conn": str(_most_clients(pooling)),
        "server_round_robin": str(int(len(pooling.sockets) > 1)),
        "server_reset_query": "DISCARD ALL",
        # A server that was down is tried again soon.
        "server_login_retry": "1",
        "server_lifetime": "3600",
        "server_idle_timeout": "600",
        "client_login_timeout": "15",
        "tcp_keepalive": "1",
        "tcp_keepidle": "60",
        "tcp_keepintvl": "10",
        "tcp_keepcnt": "6",
        "ignore_startup_parameters": ",".join(_ignored(pooling, program)),
    }
    if program.version >= _KEEPS_PREPARED_STATEMENTS:
        settings["max_prepared_statements"] = "200"
    return settings


def _ignored(pooling: Pooling, program: Program) -> list[str]:
    """Return the startup parameters that are accepted and ignored.

    A session that requests to be read-only must be, or be rejected; on a replica every session is. An older PgBouncer
    can only ignore `options` as a whole.
    """
    if not pooling.reads_only:
        return ["extra_float_digits"]
    asked = READ_ONLY_OPTIONS if program.version >= _READS_OPTIONS else ("options",)
    return ["extra_float_digits", *asked]


def _most_clients(pooling: Pooling) -> int:
    """Return how many clients may connect, within the limit of open files."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return _CLIENTS
    return max(50, min(_CLIENTS, hard - len(pooling.sockets) * pooling.connections - _OTHER_FILES))
