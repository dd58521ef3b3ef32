"""The sessions of clients on a server: not those of the platform, of replicas, or of a pooler that no client uses.

Clients connect over TCP, to the server or to its pooler, and all others over the private socket. So a session over TCP
is a client's, and a connection to the pooler's port is one too, with or without a server connection behind it.
"""

from contextlib import suppress
from pathlib import Path

import psutil

from ramet.backends.interface.values import Sessions
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process.daemon import Daemon
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import row
from ramet.errors import Unavailable

_TIMEOUT_SECONDS = 2
_PRESENT = """
    SELECT count(*) FROM pg_stat_activity
    WHERE backend_type IN ('client backend', 'walsender') AND client_addr IS NOT NULL
      AND state IS DISTINCT FROM 'starting'
"""
# What a short session leaves behind, also one over a server connection that the pooler had already. The platform works
# in the database postgres; autovacuum counts in neither column.
_PAST = """
    SELECT coalesce(sum(sessions), 0)::bigint, coalesce(sum(active_time), 0)::float8
    FROM pg_stat_database WHERE datname NOT IN ('postgres', 'template0', 'template1')
"""


def client_sessions(paths: ServicePaths, poolers: list[Path]) -> Sessions | None:
    """Return the sessions of clients on a running server and on the poolers with these directories.

    None when the server does not accept connections.
    """
    try:
        with connections.connect(paths, timeout_seconds=_TIMEOUT_SECONDS, statement_timeout="2s") as connection:
            (present,) = row(connection, _PRESENT)
            begun, active_ms = row(connection, _PAST)
    except Unavailable:
        return None
    pooled = sum(_clients_of(Daemon(home)) for home in poolers if home.is_dir())
    return Sessions(present + pooled, f"{begun} {active_ms:.3f}")


def _clients_of(pooler: Daemon) -> int:
    """Count the TCP connections of a pooler; to its servers it connects over sockets of the file system."""
    with suppress(psutil.Error, OSError):
        if (pid := pooler.running()) is not None:
            found = psutil.Process(pid).net_connections(kind="tcp")
            return sum(each.status == psutil.CONN_ESTABLISHED for each in found)
    return 0
