"""The background job that collects statistics of a server of this host."""

from harness.waiting import eventually
from ramet.backends.local.sql import connections
from tests.backends.local.forks import create, make_backend, paths_of

_WAITS = "SELECT FROM pg_locks WHERE relation = 'public.ledger'::regclass AND NOT granted"
_ANALYZED = "SELECT analyze_count FROM pg_stat_all_tables WHERE relid = 'public.later'::regclass"


def test_statistics_that_a_restart_ends_are_collected_once_after_it() -> None:
    with make_backend("copy") as backend:
        server = create(backend)
        with connections.connect(paths_of(backend, server)) as holder:
            holder.execute("CREATE TABLE public.later (n int)")
            holder.execute("BEGIN")
            holder.execute("LOCK TABLE public.ledger")
            assert backend.restore.analyze(server, 0) is None
            eventually(lambda: holder.execute(_WAITS).rowcount == 1)
            backend.instances.restart(server)
            holder.close()
        eventually(lambda: backend.restore.analyze(server, 0.5) == "collected", seconds=60)
        with connections.connect(paths_of(backend, server)) as connection:
            assert connections.value(connection, _ANALYZED) == 1
