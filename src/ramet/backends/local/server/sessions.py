"""End the sessions of tenants on a server, including those that are still being authenticated."""

import signal
import time
from functools import partial

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres, signals
from ramet.backends.local.process.identity import children_of, title_of
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.mover import MOVER_ROLE

_CONFIRM_SECONDS = 30.0
_QUIET_LOOKS = 2
_LOOK_EVERY_SECONDS = 0.005


def end_all(paths: ServicePaths, timeout_seconds: float) -> bool:
    """End all sessions except the platform's; True when none is left. The server must reject new ones.

    A session that began to authenticate before is not in pg_stat_activity yet: it is found by its process title.
    """
    deadline = time.monotonic() + timeout_seconds
    looks = 0
    with connections.connect(paths) as connection:
        while looks < _QUIET_LOOKS:
            left = _terminate_sessions(connection) + _terminate_arrivals(paths)
            looks = 0 if left else looks + 1
            if time.monotonic() >= deadline:
                return looks >= _QUIET_LOOKS
            time.sleep(_LOOK_EVERY_SECONDS)
    return True


def _terminate_sessions(connection: connections.Connection) -> int:
    rows = connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND usename IS DISTINCT FROM %s AND pid <> pg_backend_pid()",
        (connections.PLATFORM_ROLE,),
    ).fetchall()
    return len(rows)


def _terminate_arrivals(paths: ServicePaths) -> int:
    server = postgres.running(paths)
    if server is None:
        return 0
    own_title = title_of(server)
    arrivals = [pid for pid, title in children_of(server) if title == own_title or title.endswith(" authentication")]
    for pid in arrivals:
        signals.send(pid, signal.SIGTERM, partial(_is_child, server, pid))
    return len(arrivals)


def end_unconfirmed(paths: ServicePaths) -> None:
    """End the logical replication of a server that shuts down, if its clients have had some seconds to confirm all.

    A shutdown waits for them without end, and wal_sender_timeout does not end one that answers without confirming. They
    go on from what they had confirmed when the server serves again. Replicas and moves need the end: they are left.
    """
    server = postgres.running(paths)
    if server is None or postgres.stopping_seconds(paths, server) < _CONFIRM_SECONDS:
        return
    for pid, title in children_of(server):
        words = title.partition("walsender ")[2].split()
        if words and words[0] not in (connections.PLATFORM_ROLE, MOVER_ROLE):
            signals.send(pid, signal.SIGTERM, partial(_is_child, server, pid))


def _is_child(server: int, pid: int) -> bool:
    return any(child == pid for child, _ in children_of(server))
