"""Jobs on a server that several processes of Ramet take turns to ask about: one of them runs it.

A process that runs a job has a session with its name, which ends with the process. No tenant can have a session of the
platform's role, as each could have an advisory lock.
"""

from collections.abc import Callable

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import PLATFORM_ROLE, value

_SET_NAME = "SELECT set_config('application_name', %s, false)"
# PostgreSQL goes on with a statement for a while when the process that sent it has ended.
_RUNS = """
SELECT EXISTS (
    SELECT FROM pg_stat_activity WHERE usename = %s AND pid <> pg_backend_pid()
    AND (application_name = %s OR (state = 'active' AND query LIKE 'ANALYZE %%'))
)
"""


def unless_running(paths: ServicePaths, name: str, work: Callable[[], str]) -> str | None:
    """Do the work of a job and return its result; None where another process runs the job.

    Of two that begin at once both may find the other one, but never both none: each shows its name before it looks.
    """
    shown = f"ramet {name}"
    with connections.connect(paths) as connection:
        connection.execute(_SET_NAME, (shown,))
        return None if value(connection, _RUNS, PLATFORM_ROLE, shown) else work()
