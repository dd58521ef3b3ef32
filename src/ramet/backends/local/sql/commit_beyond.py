"""A commit that proves how far the WAL of a server must be read to restore a time: the first one after that time."""

import time
from datetime import datetime, timedelta

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import row
from ramet.errors import Failed, Unavailable
from ramet.model.timestamps import rfc3339

_COMMIT_WITHIN_SECONDS = 0.5
_CLOCKS_AGREE_WITHIN = timedelta(seconds=5)


def commit_beyond(parent: ServicePaths, target: datetime) -> str:
    """Commit transactions on a running server until one ended after `target`; return the end of the WAL then.

    Raises Unavailable when the server does not accept connections or its clock is just before the target, Failed when
    its clock was set back to long before the target.
    """
    deadline = time.monotonic() + _COMMIT_WITHIN_SECONDS
    with connections.connect(parent) as connection:
        while True:
            # The message makes the commit wait until it is flushed.
            query = "SELECT pg_current_xact_id()::xid::text, pg_logical_emit_message(true, 'ramet', 'moment')"
            xid = row(connection, query)[0]
            ended, lsn = row(
                connection, "SELECT pg_xact_commit_timestamp(%s::text::xid), pg_current_wal_flush_lsn()::text", xid
            )
            if ended > target:
                return str(lsn)
            if time.monotonic() > deadline:
                raise _still_to_come(parent, ended, target)


def _still_to_come(parent: ServicePaths, now: datetime, target: datetime) -> Failed | Unavailable:
    message = f"target_time {rfc3339(target)} is later than the clock of service {parent.service_id} ({rfc3339(now)})"
    if target - now > _CLOCKS_AGREE_WITHIN:
        return Failed("TARGET_TIME_IN_FUTURE", message, "Its clock was set back. Use fork_strategy NOW.")
    return Unavailable("TARGET_TIME_IN_FUTURE", message)
