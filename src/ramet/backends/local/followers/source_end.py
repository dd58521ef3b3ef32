"""Whether a standby has all that its source has committed, which a promotion waits for."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ramet.backends.local.followers.lag import OF_SERVERS, reason
from ramet.backends.local.followers.recovery_log import OF_RECOVERY, STARTS, lines
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.log_reader import logged_at
from ramet.backends.local.server.probe import Presence, presence
from ramet.backends.local.server.read_only_storage import NOT_RECEIVED, receives_nothing
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import row
from ramet.errors import Failed
from ramet.model.snapshot import lsn_number
from ramet.model.upstream import Upstream

_END = """
SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()::text, pg_last_wal_receive_lsn()::text,
    EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')
"""
# Each says that WAL has arrived until then from a source that ran. A start restores again what had arrived before.
_ARRIVES = re.compile("started streaming WAL|replication terminated by primary server|data (from|to) WAL stream")
# Before each of them the standby may have asked nobody: it did not run, or its storage was nearly full.
_ASKS_AGAIN = (STARTS, 'parameter "primary_conninfo" changed')
_PAUSE_SECONDS = 1.0
_ANSWERS = tuple(re.compile(said) for said in (*(one[0] for one in OF_SERVERS), "could not start WAL streaming: ERROR"))


@dataclass(frozen=True)
class Watch:
    """Since when promotions have looked at their sources again and again, a second at most between two looks.

    A standby asks its source for WAL every two seconds only, and misses one that has run and stopped between.
    """

    _looks: dict[str, tuple[datetime, float]] = field(default_factory=dict)

    def begin(self, service_id: str) -> datetime:
        """Begin a look. Return since when the source is watched."""
        since, looked_at = self._looks.get(service_id, (None, 0.0))
        if since is None or time.monotonic() - looked_at > _PAUSE_SECONDS:
            return datetime.now(UTC) - timedelta(seconds=_PAUSE_SECONDS)
        return since

    def end(self, service_id: str, since: datetime) -> None:
        """End a look, and note since when the source is watched: since now, where it was seen running."""
        self._looks[service_id] = since, time.monotonic()


def left(
    paths: ServicePaths,
    upstream: Upstream,
    lsn: str | None,
    *,
    drain: bool,
    takes_place: bool,
    ends_with_shutdown: Callable[[str], bool],
    watch: Watch,
) -> str | None:
    """Return None when a standby has replayed all until `lsn`, and with `drain` to the source's shutdown.

    Otherwise a text that changes with the progress. `ends_with_shutdown` tells whether the last record before an LSN
    is the checkpoint of a shutdown. That must not be an earlier one: raises Failed when the source has run since then,
    or may have. With `takes_place` the `lsn` was read after the last commit of the source, and proves it. Raises
    Unavailable.
    """
    since, is_proven = watch.begin(paths.service_id), takes_place and lsn is not None
    with connections.connect(paths) as connection:
        in_recovery, until, received, is_streaming = row(connection, _END)
    if not in_recovery:
        return None
    has_all = received is None or lsn_number(received) <= lsn_number(until)
    has_ended = drain and not is_streaming
    is_shut_down = has_ended and has_all and ends_with_shutdown(until)
    found = None
    if has_ended and not is_proven and (is_shut_down or not has_all):
        found = presence(upstream.host, upstream.port, upstream.user, upstream.database)
    watch.end(paths.service_id, datetime.now(UTC) if found is Presence.RUNS else since)
    if lsn is not None and lsn_number(until) < lsn_number(lsn):
        return f"replayed until {until}, and waiting for {lsn}"
    if not drain or (is_shut_down and is_proven):
        return None
    if is_streaming:
        return f"the source is running; replayed until {until}"
    if not has_all:
        return f"replayed until {until} of {received}"
    if receives_nothing(paths):
        return NOT_RECEIVED
    if not is_shut_down:
        return f"the source did not shut down in order; replayed until {until}"
    return returning(paths, upstream, until, found, since)


def returning(
    paths: ServicePaths, upstream: Upstream, until: str, found: Presence | None, since: datetime
) -> str | None:
    """Return None when a source has not come back after the shutdown that ends at an LSN; raise Failed when it has.

    What it commits then is missing until it sends that, also after it has shut down again. So it must be watched since
    a time before the shutdown, and the log must show that the standby has asked for WAL all the time since some arrived
    last, and that no server that runs has answered. `found` is what is at its address now.
    """
    if _has_answered(paths):
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
    if ended_at is None or ended_at < since:
        raise Failed(
            "SOURCE_END_UNKNOWN",
            f"The source {upstream} may have run after the shutdown that the service has received: there was a time"
            " since then in which the promotion did not look at it, or the service did not ask it for WAL",
            "If pg_controldata shows in the source that it is shut down, promote it with wait_for_lsn and without"
            " drain: the LSN is the latest checkpoint location there. Otherwise start the source, begin the promotion"
            " with drain when following has no problem, and stop the source when the promotion says that it runs.",
        )
    return None


def _has_answered(paths: ServicePaths) -> bool:
    """Tell whether a server that runs has answered since WAL arrived last, and sent nothing."""
    for line in lines(paths, OF_RECOVERY):
        if any(pattern.search(line.message) for pattern in _ANSWERS):
            return True
        if _ARRIVES.search(line.message):
            break
    return False


def _last_arrival(paths: ServicePaths) -> datetime | None:
    """Return when WAL arrived last; None where the log does not show that the standby has asked all the time since."""
    for line in lines(paths, (*OF_RECOVERY, "postmaster")):
        if any(text in line.message for text in _ASKS_AGAIN):
            return None
        if _ARRIVES.search(line.message):
            return logged_at(line.timestamp)
    return None


def ending(until: str | None) -> str:
    """Return how far a promotion is that has replayed all until an LSN: what has arrived before is replayed first."""
    return f"ending recovery; replayed until {until}"
