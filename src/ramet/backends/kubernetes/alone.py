"""Jobs on a server that several processes of Ramet take turns to ask about: one of them runs it.

A process that runs a job has a session with its name, which ends with the process. No tenant can have a session of the
platform's role, as each could have an advisory lock.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.jobs import OUTCOME_SECONDS, Jobs
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import PLATFORM_ROLE, Connection, value

Work = Callable[[Callable[[], object]], str]
_PAUSE_SECONDS, _NEW = 5.0, "5 s"
_STATEMENTS = [
    "ANALYZE %",
    "SELECT pg_catalog.bt_index_parent_check(%",
    "SELECT blkno, offnum, msg FROM pg_catalog.verify_heapam(%",
]
_SET_NAME = "SELECT set_config('application_name', %s, false)"
# PostgreSQL goes on with a statement for a while when the process that sent it has ended. After a crash it starts its
# WAL writer again when it serves: the process whose session was lost needs a moment to show the name again. A session
# that is new may be of a process that only looks, as this one does.
_ALL_ARE_NEW = """
SELECT bool_and(is_new) FROM (
    SELECT *, backend_start BETWEEN clock_timestamp() - %s::interval AND clock_timestamp() AS is_new
    FROM pg_stat_activity
) one WHERE (backend_type = 'walwriter' AND is_new) OR (
    usename = %s AND pid <> pg_backend_pid()
    AND (application_name = %s OR (state = 'active' AND query LIKE ANY (%s)))
)
"""


@dataclass(frozen=True)
class LoneJobs:
    """The jobs of this process, each of which it leaves to another process that runs it.

    `_not_before` says when it looks again whether one does: each look starts a program in the pod.
    """

    jobs: Jobs
    _not_before: dict[tuple[str, str], float] = field(default_factory=dict)

    def result_of(self, paths: ServicePaths, name: str, work: Work, timeout_seconds: float, *, code: str) -> str | None:
        """Do as `Jobs.result_of` does; None also where another process runs the job, or may still have its result.

        `work` is given what connects and shows the name again, for when the server was lost.
        """
        if time.monotonic() < self._not_before.get((paths.service_id, name), 0.0):
            return None
        begin = partial(self._unless_running, paths, name, work)
        return self.jobs.result_of(paths, name, begin, timeout_seconds, code=code)

    def _unless_running(self, paths: ServicePaths, name: str, work: Work) -> str | None:
        """Do the work of a job and return its result; None where another process runs the job.

        Of two that begin at once both may find the other one, but never both none: each shows its name before it looks.
        """
        shown = f"ramet {name}"
        with ExitStack() as session:

            def show() -> Connection:
                with session.pop_all():  # which shows the name until the new session does
                    connection = session.enter_context(connections.connect(paths))
                    connection.execute(_SET_NAME, (shown,))
                return connection

            all_are_new = value(show(), _ALL_ARE_NEW, _NEW, PLATFORM_ROLE, shown, _STATEMENTS)
            if all_are_new is None:
                return work(show)
        now = time.monotonic()
        for old in [key for key, until in list(self._not_before.items()) if until < now]:
            self._not_before.pop(old, None)
        self._not_before[paths.service_id, name] = now + (_PAUSE_SECONDS if all_are_new else OUTCOME_SECONDS)
        return None
