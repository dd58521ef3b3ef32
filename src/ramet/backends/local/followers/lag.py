"""How far a standby is behind its source, and why nothing arrives: by SQL, and by what its log says."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, takewhile

from ramet.backends.local.followers.recovery_log import OF_RECOVERY, STARTS, lines
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore.standby_copy import replayed
from ramet.backends.local.server.read_only_storage import NOT_RECEIVED, receives_nothing
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import row
from ramet.model.upstream import COPIED_AGAIN, Following, Upstream, lost_wal

# Until the first message of a connection, its end is that of the one before, and both times are those of its begin.
# While it streams from no source, what that has is not known.
_PROGRESS = """
SELECT pg_last_wal_replay_lsn()::text, pg_last_wal_receive_lsn()::text,
    CASE WHEN w.pid IS NOT NULL THEN
        pg_wal_lsn_diff(coalesce(w.latest_end_lsn, pg_last_wal_receive_lsn()), pg_last_wal_replay_lsn())::int8 END,
    w.pid IS NOT NULL, pg_get_wal_replay_pause_state(),
    w.latest_end_lsn < %s::text::pg_lsn AND w.last_msg_send_time <> w.last_msg_receipt_time
FROM (VALUES (1)) one LEFT JOIN pg_stat_wal_receiver w ON w.status = 'streaming'
"""
_AWAY = "It follows again by itself when the source answers."
_REASON_BYTES = 128 * 1024  # of the log, which is read each time that a standby is observed
_BEGINS = ("started streaming WAL", STARTS)
_IS_BEHIND = re.compile(r"requested start(ing)? point .* is ahead of the")
# What replay says of WAL that does not continue what it has, and how it ends the stream then.
_NO_RECORD = re.compile(
    r"^(record with incorrect prev-link|incorrect resource manager data checksum"
    r"|invalid (record|resource manager|magic number|info bits|contrecord)"
    r"|unexpected pageaddr|record length|there is no contrecord flag|out-of-sequence timeline)"
)
_STREAM_ENDED = "terminating walreceiver process due to administrator command"
# What the log says, the sentence, and the remedy. The first that fits the newest message counts.
# A server that runs is needed for these.
OF_SERVERS = (
    (
        r"requested WAL segment .* has already been removed|can no longer get changes|has been invalidated",
        "The source has removed WAL that this service did not receive yet",
        COPIED_AGAIN,
    ),
    (
        r"new timeline \d+ forked off current database system timeline|is not in this server's history",
        "The source was promoted from an earlier state than this service has already replayed",
        COPIED_AGAIN,
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
        (
            r"authentication failed|no pg_hba.conf entry|permission denied|must be superuser or replication"
            r"|not permitted to log in|role .* does not exist"
        ),
        "The source refuses the role",
        "There: let the role log in for replication with the password that was given.",
    ),
    (
        r"too many (clients|connections)|connection slots are reserved|exceeds max_wal_senders",
        "The source allows no more connections",
        _AWAY,
    ),
    (r"does not support SSL", "The source has no TLS", "There: set ssl = on."),
    (
        r"certificate verify failed|root certificate|server certificate",
        "The certificate of the source cannot be verified",
        _AWAY,
    ),
)
# These are logged also where none runs.
_WITHOUT_SERVER = (
    (r"restored log file", "It catches up from the archive of its source", "Then it streams again."),
    (r"starting up|shutting down", "The source is starting or shutting down", _AWAY),
    (
        r"could not (connect|receive data)|closed the connection|terminat(ed|ing)|connection to server",
        "The source cannot be reached",
        _AWAY,
    ),
)
_REASONS = tuple((re.compile(pattern), text, remedy) for pattern, text, remedy in (*OF_SERVERS, *_WITHOUT_SERVER))


def observe(paths: ServicePaths, upstream: Upstream, messages: Iterable[str] | None = None) -> Following:
    """Return how far behind a serving standby is. Raises Unavailable.

    `messages` are those of `OF_RECOVERY`, newest first, where its log has no files here.
    """
    now = datetime.now(UTC)
    with connections.connect(paths, timeout_seconds=3, statement_timeout="3s") as connection:
        # First what was replayed: the source had at least that, unless it lost some.
        reached = replayed(connection)
        _, _, lag_bytes, is_streaming, paused, is_behind = row(connection, _PROGRESS, reached.lsn)
    caught_up = is_streaming and not lag_bytes
    behind = 0.0 if caught_up else max(0.0, (now - reached.complete_until).total_seconds())
    why = Reason(None)
    if paused == "paused":
        why = Reason("Replay waits for a restart with larger settings. It is restarted by itself.")
    elif is_behind:
        why = _lost(upstream)
    elif not is_streaming:
        messages = _recovery_messages(paths) if messages is None else messages
        why = Reason(NOT_RECEIVED) if receives_nothing(paths) else _reason(messages, upstream)
    return Following(
        observed_at=now,
        lag_bytes=None if lag_bytes is None else max(0, lag_bytes),
        lag_seconds=round(behind, 3),
        complete_until=reached.complete_until,
        replayed_lsn=reached.lsn,
        problem=why.problem,
        needs_copy=why.needs_copy,
        has_diverged=why.has_diverged,
    )


@dataclass(frozen=True)
class Reason:
    """Why nothing arrives from a source, with the remedy, and whether only another copy helps."""

    problem: str | None
    needs_copy: bool = False
    has_diverged: bool = False


def reason(paths: ServicePaths, upstream: Upstream) -> Reason:
    """Return why nothing arrives from the source, by what the log says since it streamed last, or was started."""
    return _reason(_recovery_messages(paths), upstream)


def _recovery_messages(paths: ServicePaths) -> Iterator[str]:
    return (line.message for line in lines(paths, OF_RECOVERY, _REASON_BYTES))


def _reason(logged: Iterable[str], upstream: Upstream) -> Reason:
    messages = list(takewhile(lambda message: not any(text in message for text in _BEGINS), logged))
    # What was logged later comes first.
    is_broken = any(_NO_RECORD.search(one) and _STREAM_ENDED in following for following, one in pairwise(messages))
    if is_broken or any(_IS_BEHIND.search(message) for message in messages):
        return _lost(upstream)
    for message in messages:
        for pattern, text, remedy in _REASONS:
            if pattern.search(message):
                return Reason(f"{text} ({upstream}). {remedy}", remedy == COPIED_AGAIN)
    return Reason(f"Nothing is received from the source {upstream} now. {_AWAY}")


def _lost(upstream: Upstream) -> Reason:
    return Reason(lost_wal(upstream), needs_copy=True, has_diverged=True)
