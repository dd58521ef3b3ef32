"""The border of a fork's history, to the transaction, and what did not come along."""

from datetime import timedelta

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.sql import connections
from ramet.model.timestamps import rfc3339
from tests.backends.local.forks import append, fork, paths_of, rows_of, snapshot

MICROSECOND = timedelta(microseconds=1)


def test_the_report_of_a_target_time_names_the_transactions_on_both_sides(
    backend: LocalBackend, parent: Server
) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    times = append(backend, parent, 1, 2, 3)
    forked = fork(backend, parent, snapshot_id, times[1])
    cut = forked.capture.facts["cut"]
    assert rows_of(backend, forked.server) == [1, 2]
    assert cut["last_included"]["time"] == rfc3339(times[1]) == forked.recovery["last_commit_time"]
    assert cut["first_excluded"]["time"] == rfc3339(times[2]) == forked.recovery["first_excluded_time"]
    assert cut["first_excluded"]["xid"] == forked.recovery["first_excluded_xid"]
    assert cut["behind_with_earlier_time"] == []


def test_the_end_of_a_forks_history_is_read_from_the_parents_next_wal(backend: LocalBackend, parent: Server) -> None:
    before = append(backend, parent, 1, 2)
    forked = fork(backend, parent)
    assert backend.restore.report_on_fork(forked.server, parent.service_id)["cut"]["first_excluded"] is None
    after = append(backend, parent, 3)
    cut = backend.restore.report_on_fork(forked.server, parent.service_id)["cut"]
    assert cut["last_included"] is None or cut["last_included"]["time"] == rfc3339(before[-1])
    assert cut["first_excluded"]["time"] == rfc3339(after[0])


def test_without_its_parent_the_end_of_a_forks_history_is_unknown(backend: LocalBackend, parent: Server) -> None:
    forked = fork(backend, parent)
    assert "cut" not in backend.restore.report_on_fork(forked.server, None)


@pytest.mark.parametrize("to_a_time", [False, True])
def test_unlogged_tables_are_listed(backend: LocalBackend, parent: Server, to_a_time: bool) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("GRANT CREATE ON DATABASE postgres TO PUBLIC")
        connection.execute("CREATE UNLOGGED TABLE public.scratch AS SELECT 1 AS n")
    restore_time = append(backend, parent, 1)[0]
    forked = fork(backend, parent, *((snapshot_id, restore_time) if to_a_time else ()))
    assert backend.restore.report_on_fork(forked.server, None)["unlogged_tables"] == ["postgres.public.scratch"]


def test_a_fork_report_names_some_unlogged_tables_and_a_move_gets_all(backend: LocalBackend, parent: Server) -> None:
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("GRANT CREATE ON DATABASE postgres TO PUBLIC")
        for number in range(102):
            connection.execute(f"CREATE UNLOGGED TABLE public.scratch_{number} ()")
    assert len(backend.replication.unlogged_tables(parent)) == 102
    forked = fork(backend, parent)
    assert len(backend.restore.report_on_fork(forked.server, None)["unlogged_tables"]) == 100


def test_statistics_are_collected_in_the_background(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1, 2, 3)
    forked = fork(backend, parent)
    query = "SELECT count(*) FROM pg_stat_all_tables WHERE relname = 'ledger' AND last_analyze IS NOT NULL"
    with connections.connect(paths_of(backend, forked.server)) as connection:
        assert connection.execute(query).fetchone() == (0,)
        eventually(lambda: backend.restore.analyze(forked.server, 0.2) == "collected")
        assert connection.execute(query).fetchone() == (1,)
