"""How far a standby is behind its source, and why nothing arrives: by SQL, and by what its log says."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import log_files
from ramet.backends.local.restore.standby_copy import replayed
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import row
from ramet.model.upstream import Following, Upstream

_PROGRESS = """
SELECT pg_last_wal_replay_lsn()::text, pg_last_wal_receive_lsn()::text,
    pg_wal_lsn_diff(coalesce(w.latest_end_lsn, pg_last_wal_receive_lsn()), pg_last_wal_replay_lsn())::int8,
    w.pid IS NOT NULL, pg_get_wal_replay_pause_state()
FROM (VALUES (1)) one LEFT JOIN pg_stat_wal_receiver w ON w.status = 'streaming'
"""
_AWAY = "It follows again by itself when the source answers."
_AGAIN = "The source is copied again by itself; until then the service can be forked."
# What the log says, the sentence, and the remedy. The first that fits the newest message counts.
_REASONS: Sequence[tuple[re.Pattern[str], str, str]] = tuple(
    (re.compile(pattern), text, remedy)
    for pattern, text, remedy in (
        (r"restored log file", "It catches up from the archive of its source", "Then it streams again."),
        (
            r"requested WAL segment .* has already been removed|can no longer get changes|has been invalidated",
            "The source has removed WAL that this service did not receive yet",
            _AGAIN,
        ),
        (
            r"new timeline \d+ forked off current database system timeline|is not in this server's history",
            "The source was promoted from an earlier state than this service has already replayed",
            _AGAIN,
        ),
        (
            r"highest timeline \d+ of the primary is behind recovery timeline",
            "The source is on an earlier timeline than this service",
            "Let its address lead to the server that was promoted last.",
        ),
        (
            r"database system identifier differs",
            "At the address of the source there is another cluster",
            "Let the address lead to the source again, or follow the other one as a new service.",
        ),
        (
            r"replication slot .* does not exist",
            "The replication slot does not exist in the source any more",
            "There: SELECT pg_create_physical_replication_slot('NAME').",
        ),
        (
            r"(password authentication|no pg_hba.conf entry|permission denied|must be superuser or replication)",
            "The source refuses the role",
            "There: let the role log in for replication with the password that was given.",
        ),
        (r"certificate verify failed|root certificate", "The certificate of the source cannot be verified", _AWAY),
        (r"starting up|shutting down", "The source is starting or shutting down", _AWAY),
        (
            r"could not (connect|receive data)|closed the connection|terminat(ed|ing)|connection to server",
            "The source cannot be reached",
            _AWAY,
        ),
    )
)


def observe(paths: ServicePaths, upstream: Upstream) -> Following:
    """Return how far behind a serving standby is. Raises Unavailable."""
    now = datetime.now(UTC)
    with connections.connect(paths, timeout_seconds=3, statement_timeout="3s") as connection:
        _, _, lag_bytes, is_streaming, paused = row(connection, _PROGRESS)
        reached = replayed(connection)
    caught_up = is_streaming and not lag_bytes
    behind = 0.0 if caught_up else max(0.0, (now - reached.complete_until).total_seconds())
    problem, needs_copy = None, False
    if paused == "paused":
        problem = "Replay waits for a restart with larger settings. It is restarted by itself."
    elif not is_streaming:
        problem, needs_copy = reason(paths, upstream)
    return Following(
        observed_at=now,
        lag_bytes=None if lag_bytes is None else max(0, lag_bytes),
        lag_seconds=round(behind, 3),
        complete_until=reached.complete_until,
        problem=problem,
        needs_copy=needs_copy,
    )


def reason(paths: ServicePaths, upstream: Upstream) -> tuple[str, bool]:
    """Say why nothing arrives from the source, with the remedy, and whether only another copy helps."""
    for message in reversed(_messages(paths)):
        if "started streaming WAL" in message:
            break
        for pattern, text, remedy in _REASONS:
            if pattern.search(message):
                return f"{text} ({upstream}). {remedy}", remedy == _AGAIN
    return f"Nothing is received from the source {upstream} now. {_AWAY}", False


def _messages(paths: ServicePaths) -> list[str]:
    return [str(entry.get("message", "")) for entry in _newest(paths)]


def _newest(paths: ServicePaths) -> list[dict[str, Any]]:
    return [entry for file in log_files.files(paths)[-2:] for entry in log_files.tail_entries(file)]
