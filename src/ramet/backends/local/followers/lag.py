"""How far a standby is behind its source, and why nothing arrives: by SQL, and by what its log says."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, takewhile

import msgspec

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import log_files
from ramet.backends.local.restore.standby_copy import replayed
from ramet.backends.local.server.log_reader import decoded, lines_backwards, logged_at
from ramet.backends.local.server.probe import Presence, presence
from ramet.backends.local.server.read_only_storage import NOT_RECEIVED, receives_nothing
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import row
from ramet.errors import Failed
from ramet.model.snapshot import lsn_number
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
_END = """
SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()::text, pg_last_wal_receive_lsn()::text,
    EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')
"""
_AWAY = "It follows again by itself when the source answers."
# Messages of the processes that receive and replay WAL; those of sessions could say the same.
OF_RECOVERY = ("startup", "walreceiver")
_REASON_BYTES = 128 * 1024  # of the log, which is read each time that a standby is observed
_STARTS = "entering standby mode"
_BEGINS = ("started streaming WAL", _STARTS)
_IS_BEHIND = re.compile(r"requested start(ing)? point .* is ahead of the")
# What replay says of WAL that does not continue what it has, and how it ends the stream then.
_NO_RECORD = re.compile(
    r"^(record with incorrect prev-link|incorrect resource manager data checksum"
    r"|invalid (record|resource manager|magic number|info bits|contrecord)"
    r"|unexpected pageaddr|record length|there is no contrecord flag|out-of-sequence timeline)"
)
_STREAM_ENDED = "terminating walreceiver process due to administrator command"
# Each says that WAL has arrived until then from a source that ran. A start restores again what had arrived before.
_ARRIVES = re.compile("started streaming WAL|replication terminated by primary server|data (from|to) WAL stream")
# Before each of them the standby may have asked nobody: it did not run, or its storage was nearly full.
_ASKS_AGAIN = (_STARTS, 'parameter "primary_conninfo" changed')
# What the log says, the sentence, and the remedy. The first that fits the newest message counts.
# A server that runs is needed for these.
_OF_SERVERS = (
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
_REASONS = tuple((re.compile(pattern), text, remedy) for pattern, text, remedy in (*_OF_SERVERS, *_WITHOUT_SERVER))
_ANSWERS = tuple(
    re.compile(said) for said in (*(one[0] for one in _OF_SERVERS), "could not start WAL streaming: ERROR")
)


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


def left(
    paths: ServicePaths,
    upstream: Upstream,
    lsn: str | None,
    *,
    shut_down_after: datetime | None,
    takes_place: bool,
    ends_with_shutdown: Callable[[str], bool],
    returned: set[str],
) -> str | None:
    """Return None when a standby has replayed all until `lsn`, and to the source's shutdown after a time.

    Otherwise a text that changes with the progress. `ends_with_shutdown` tells whether the last record before an LSN
    is the checkpoint of a shutdown. That must not be an earlier one: raises Failed when the source has run since then,
    or may have. With `takes_place` the `lsn` was read after the last commit of the source, and proves it. `returned`
    keeps the services whose source has run again, until they stream. Raises Unavailable.
    """
    with connections.connect(paths) as connection:
        in_recovery, until, received, is_streaming = row(connection, _END)
    if is_streaming:
        returned.discard(paths.service_id)
    if not in_recovery:
        return None
    if lsn is not None and lsn_number(until) < lsn_number(lsn):
        return f"replayed until {until}, and waiting for {lsn}"
    if shut_down_after is None:
        return None
    if is_streaming:
        return f"the source is running; replayed until {until}"
    if received is not None and lsn_number(received) > lsn_number(until):
        return f"replayed until {until} of {received}"
    is_shut_down = ends_with_shutdown(until)
    if is_shut_down and takes_place and lsn is not None:
        return None
    if receives_nothing(paths):
        return NOT_RECEIVED
    if not is_shut_down:
        return f"the source did not shut down in order; replayed until {until}"
    return returning(paths, upstream, until, shut_down_after, returned)


def returning(
    paths: ServicePaths, upstream: Upstream, until: str, shut_down_after: datetime, returned: set[str]
) -> str | None:
    """Return None when a source has not come back after the shutdown that ends at an LSN; raise Failed when it has.

    What it commits then is missing until it sends that, also after it has shut down again. The standby asks for WAL
    every two seconds only, so the shutdown must be after a time from which on this is called several times a second.
    The log must show that the standby has asked all the time since WAL arrived last, and that no server that runs has
    answered.
    """
    found = presence(upstream.host, upstream.port, upstream.user, upstream.database)
    if found is Presence.RUNS:
        returned.add(paths.service_id)
    if _has_answered(paths) or (found is Presence.SILENT and paths.service_id in returned):
        raise Failed(
            "SOURCE_RETURNED",
            f"The source {upstream} was started again after the shutdown that the service has received, and what it"
            " has committed since then is missing here",
            f"{reason(paths, upstream).problem} Promote it with drain when following has no problem.",
        )
    if found is Presence.RUNS:  # the standby asks it again within seconds
        return f"the source is running; replayed until {until}"
    if found is Presence.CHANGES:
        return f"the source is starting or shutting down; replayed until {until}"
    ended_at = _last_arrival(paths)
    if ended_at is None or ended_at < shut_down_after:
        raise Failed(
            "SOURCE_END_UNKNOWN",
            f"The source {upstream} may have run after the shutdown that the service has received: that was before the"
            " promotion began, or there was a time since then in which the service did not ask it for WAL",
            "Promote it with wait_for_lsn and without drain: the LSN is the latest checkpoint location that"
            " pg_controldata shows in the source. Or start the source, begin the promotion with drain when following"
            " has no problem, and stop the source then.",
        )
    return None


def _has_answered(paths: ServicePaths) -> bool:
    """Tell whether a server that runs has answered since WAL arrived last, and sent nothing."""
    for line in _lines(paths, OF_RECOVERY):
        if any(pattern.search(line.message) for pattern in _ANSWERS):
            return True
        if _ARRIVES.search(line.message):
            break
    return False


def _last_arrival(paths: ServicePaths) -> datetime | None:
    """Return when WAL arrived last; None where the log does not show that the standby has asked all the time since."""
    for line in _lines(paths, (*OF_RECOVERY, "postmaster")):
        if any(text in line.message for text in _ASKS_AGAIN):
            return None
        if _ARRIVES.search(line.message):
            return logged_at(line.timestamp)
    return None


def ending(until: str | None) -> str:
    """Return how far a promotion is that has replayed all until an LSN: what has arrived before is replayed first."""
    return f"ending recovery; replayed until {until}"


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
    return (line.message for line in _lines(paths, OF_RECOVERY, _REASON_BYTES))


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


class _Line(msgspec.Struct):
    """The fields that are read of a line of the log."""

    timestamp: str = ""
    message: str = ""
    backend_type: str = ""


_DECODER = msgspec.json.Decoder(_Line)


def _lines(paths: ServicePaths, processes: Sequence[str], limit_bytes: int | None = None) -> Iterator[_Line]:
    """Yield what these processes have logged, newest first, from all that is kept of the log or from its end."""
    scanned = 0
    for _, line in lines_backwards(log_files.files(paths)):
        scanned += len(line)
        if limit_bytes is not None and scanned > limit_bytes:
            return
        try:
            entry = decoded(line, _DECODER)
        except (ValueError, msgspec.MsgspecError):
            continue
        if entry.backend_type in processes:
            yield entry
