"""Measure a running server, by SQL and by the kernel's counters of its processes and files."""

from collections.abc import Sequence
from contextlib import suppress

import psutil

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.process.identity import children_of
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import row
from ramet.backends.local.volumes.disk_usage import allocated_bytes
from ramet.errors import Unavailable
from ramet.model.metrics import TIMELINE, key_of

_TIMEOUT_SECONDS = 2
_STATES = ("active", "idle", "idle in transaction")
SESSIONS = """
    SELECT count(*) FILTER (WHERE state = 'active'), count(*) FILTER (WHERE state = 'idle'),
           count(*) FILTER (WHERE state LIKE 'idle in transaction%')
    FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
TOTALS = """
    SELECT sum(xact_commit)::float8, sum(xact_rollback)::float8, sum(blks_hit)::float8, sum(blks_read)::float8,
           sum(deadlocks)::float8, sum(temp_bytes)::float8, current_setting('max_connections')::float8,
           CASE WHEN pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')
                ELSE pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') END::float8,
           (SELECT timeline_id::float8 FROM pg_control_checkpoint())
    FROM pg_stat_database
"""
REPLAY_LAG = """
    SELECT CASE WHEN pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn()
                     AND EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming') THEN 0
                ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 END
    WHERE pg_is_in_recovery()
"""
_TOTAL_KEYS = (
    key_of("ramet_transactions_total", outcome="commit"),
    key_of("ramet_transactions_total", outcome="rollback"),
    key_of("ramet_blocks_total", source="cache"),
    key_of("ramet_blocks_total", source="disk"),
    key_of("ramet_deadlocks_total"),
    key_of("ramet_temporary_bytes_total"),
    key_of("ramet_connections_limit"),
    key_of("ramet_wal_bytes_total"),
    TIMELINE,
)


def measure(paths: ServicePaths) -> dict[str, float] | None:
    """Return the current measurements of a server, or None when it does not accept connections."""
    pid = postgres.running(paths) if postgres.is_ready(paths) else None
    if pid is None:
        return None
    try:
        with connections.connect(paths, timeout_seconds=_TIMEOUT_SECONDS, statement_timeout="2s") as connection:
            lag = connection.execute(REPLAY_LAG).fetchone()
            found = values_of(row(connection, SESSIONS), row(connection, TOTALS), None if lag is None else lag[0])
    except Unavailable:
        return None
    pids = [pid, *(child for child, _title in children_of(pid))]
    return {
        **found,
        key_of("ramet_cpu_seconds_total"): sum(map(_cpu_seconds, pids)),
        key_of("ramet_memory_bytes"): sum(map(_memory_bytes, pids)),
        key_of("ramet_storage_bytes"): _storage_bytes(paths),
    }


def values_of(sessions: Sequence[float], totals: Sequence[float], lag: float | None) -> dict[str, float]:
    """Return the rows of the queries SESSIONS and TOTALS, and the replay lag of a replica, as measurements."""
    return {
        **{key_of("ramet_connections", state=state): n for state, n in zip(_STATES, sessions, strict=True)},
        **dict(zip(_TOTAL_KEYS, totals, strict=True)),
        **({} if lag is None else {key_of("ramet_replay_lag_seconds"): max(0.0, lag)}),
    }


def _cpu_seconds(pid: int) -> float:
    with suppress(psutil.Error, OSError):
        return sum(psutil.Process(pid).cpu_times()[:4])  # user, system, and those of children that have ended
    return 0.0


def _memory_bytes(pid: int) -> int:
    """Return the proportional set size of a process: memory that several processes share counts once in all."""
    with suppress(psutil.Error, OSError):
        return int(psutil.Process(pid).memory_full_info().pss)
    return 0


def _storage_bytes(paths: ServicePaths) -> int:
    with suppress(OSError):  # the data directory has just been removed
        return allocated_bytes(paths.data)
    return 0
