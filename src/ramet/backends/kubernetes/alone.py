"""Jobs on a server that several processes of Ramet take turns to ask about: one of them runs it.

A process that runs a job has a session with its name, which ends with the process. No tenant can have a session of the
platform's role, as each could have an advisory lock.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import PLATFORM_ROLE, Connection, value

_PAUSE_SECONDS = 5.0
_SET_NAME = "SELECT set_config('application_name', %s, false)"
# PostgreSQL goes on with a statement for a while when the process that sent it has ended. After a crash it starts its
# WAL writer again when it serves: the process whose session was lost needs a moment to show the name again.
_RUNS = """
SELECT EXISTS (
    SELECT FROM pg_stat_activity WHERE usename = %s AND pid <> pg_backend_pid()
    AND (application_name = %s OR (state = 'active' AND query LIKE 'ANALYZE %%'))
) OR EXISTS (
    SELECT FROM pg_stat_activity
    WHERE backend_type = 'walwriter'
    AND backend_start BETWEEN clock_timestamp() - '5 s'::interval AND clock_timestamp()
)
"""


def unless_running(paths: ServicePaths, name: str, work: Callable[[Callable[[], object]], str]) -> str | None:
    """Do the work of a job and return its result; None, after some seconds, where another process runs the job.

    `work` is given what connects and shows the name again, for when the server was lost. Of two that begin at once both
    may find the other one, but never both none: each shows its name before it looks.
    """
    shown = f"ramet {name}"
    with ExitStack() as session:

        def show() -> Connection:
            with session.pop_all():  # which shows the name until the new session does
                connection = session.enter_context(connections.connect(paths))
                connection.execute(_SET_NAME, (shown,))
            return connection

        if not value(show(), _RUNS, PLATFORM_ROLE, shown):
            return work(show)
    time.sleep(_PAUSE_SECONDS)  # each session begins with a program in the pod
    return None
