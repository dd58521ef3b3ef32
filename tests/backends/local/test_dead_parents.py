"""Forks of a parent whose server is dead and not paused: its files tell all that it had committed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.process import postgres
from ramet.backends.local.restore.capture import Capturing
from ramet.backends.local.sql import connections
from ramet.backends.local.wal.segment import PAGE_BYTES, Segment
from ramet.errors import Failed
from ramet.model.size import Size
from tests.backends.local.borders import commit_across_border
from tests.backends.local.forks import (
    append,
    committed_until,
    fork,
    paths_of,
    rows_of,
    run,
    run_fork,
    snapshot,
    writing,
)
from tests.backends.local.hosts import new_server
from tests.backends.local.segments import overwrite

TORN_AT = 512  # a sector: what a disk writes whole
MICROSECOND = timedelta(microseconds=1)


def kill(backend: LocalBackend, server: Server) -> None:
    assert postgres.kill(paths_of(backend, server), 10)


def test_a_fork_of_a_crashed_parent_contains_all_committed_transactions(backend: LocalBackend, parent: Server) -> None:
    snapshot(backend, parent)
    with writing(backend, parent, first=0) as writer:
        eventually(lambda: len(writer.acknowledged) > 300)
    acknowledged = len(writer.acknowledged)
    kill(backend, parent)
    forked = fork(backend, parent)
    assert rows_of(backend, forked.server) == list(range(acknowledged))
    assert postgres.running(paths_of(backend, parent)) is None


@pytest.mark.parametrize("offset", [-MICROSECOND, timedelta(0), MICROSECOND])
def test_a_target_time_of_a_crashed_parent_is_exact_to_the_microsecond(
    backend: LocalBackend, parent: Server, offset: timedelta
) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    restore_time = append(backend, parent, 1, 2, 3)[1] + offset
    expected = committed_until(backend, parent, restore_time)
    kill(backend, parent)
    assert rows_of(backend, fork(backend, parent, snapshot_id, restore_time).server) == expected


def test_a_target_after_the_last_commit_of_a_crashed_parent_contains_everything(
    backend: LocalBackend, parent: Server
) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    append(backend, parent, 1, 2, 3)
    kill(backend, parent)
    forked = fork(backend, parent, snapshot_id, datetime.now(UTC))
    assert rows_of(backend, forked.server) == [1, 2, 3]
    assert forked.capture.facts["cut"]["first_excluded"] is None


def test_a_last_commit_that_crosses_segments_is_in_forks_of_a_crashed_parent(
    backend: LocalBackend, parent: Server
) -> None:
    snapshot(backend, parent)
    append(backend, parent, 1)
    commit_across_border(backend, parent)
    kill(backend, parent)
    assert len(rows_of(backend, fork(backend, parent).server)) == 3001


@pytest.mark.parametrize("is_begun", [False, True], ids=["segment-missing", "page-torn"])
def test_a_record_that_is_torn_between_two_segments_is_the_end_of_the_wal(
    backend: LocalBackend, parent: Server, is_begun: bool
) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    append(backend, parent, 1)
    commit_across_border(backend, parent)
    with connections.connect(paths_of(backend, parent)) as connection:
        name = connection.execute("SELECT pg_walfile_name(pg_current_wal_lsn())").fetchone()
    kill(backend, parent)
    assert name is not None
    second = paths_of(backend, parent).data / "pg_wal" / str(name[0])
    if is_begun:
        overwrite(second, TORN_AT, bytes(PAGE_BYTES - TORN_AT))
    else:
        second.unlink()
    assert rows_of(backend, fork(backend, parent).server) == [1]
    assert rows_of(backend, fork(backend, parent, snapshot_id, datetime.now(UTC)).server) == [1]


def test_wal_of_several_segments_is_followed_to_its_end(backend: LocalBackend, parent: Server) -> None:
    snapshot(backend, parent)
    for number in (1, 2, 3):
        append(backend, parent, number)
        with connections.connect(paths_of(backend, parent)) as connection:
            connection.execute("SELECT pg_switch_wal()")
    append(backend, parent, 4)
    kill(backend, parent)
    assert rows_of(backend, fork(backend, parent).server) == [1, 2, 3, 4]


def test_a_crashed_parent_can_be_forked_from_a_clean_snapshot(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    backend.servers.stop(parent)
    snapshot_id, _ = snapshot(backend, parent, paused=True)
    run(backend, parent)
    append(backend, parent, 2)
    kill(backend, parent)
    assert rows_of(backend, fork(backend, parent).server) == [1, 2]
    assert rows_of(backend, fork(backend, parent, snapshot_id, datetime.now(UTC)).server) == [1, 2]


def test_a_segment_that_a_dead_parent_lost_is_named(backend: LocalBackend, parent: Server) -> None:
    snapshot(backend, parent)
    append(backend, parent, 1)
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("SELECT pg_switch_wal()")
        append(backend, parent, 2)
        connection.execute("CHECKPOINT")
        found = connection.execute("SELECT pg_walfile_name(pg_current_wal_lsn())").fetchone()
    kill(backend, parent)
    assert found is not None
    paths = paths_of(backend, parent)
    (paths.data / "pg_wal" / str(found[0])).unlink()
    with pytest.raises(Failed, match=f"WAL segment {found[0]} is missing"):
        fork(backend, parent)


def test_segments_that_were_never_begun_are_not_followed(backend: LocalBackend, parent: Server) -> None:
    snapshot(backend, parent)
    append(backend, parent, 1)
    kill(backend, parent)
    paths = paths_of(backend, parent)
    ahead = paths.data / "pg_wal" / Segment(1, 200).name
    with ahead.open("wb") as file:
        file.truncate(16 * 1024 * 1024)
    assert rows_of(backend, fork(backend, parent).server) == [1]


def test_a_smaller_fork_of_a_dead_parent_starts(backend: LocalBackend) -> None:
    parent = new_server(backend.instances, size=Size(4000, 16))
    backend.servers.initialize(parent)
    run(backend, parent)
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("CREATE TABLE public.ledger (n int PRIMARY KEY)")
    snapshot(backend, parent)
    append(backend, parent, 1)
    kill(backend, parent)
    assert rows_of(backend, fork(backend, parent).server) == [1]


class _Restarting:
    """A driver that starts the dead server of a service before it copies a base backup, and lets it write."""

    def __init__(self, backend: LocalBackend, server: Server) -> None:
        self._backend, self._server = backend, server

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend.pool.driver, name)

    def clone_tree(self, source: Path, target: Path, *exclusions: object) -> object:
        run(self._backend, self._server)
        append(self._backend, self._server, 2)
        return self._backend.pool.driver.clone_tree(source, target, *exclusions)  # type: ignore[arg-type]


def test_a_parent_that_is_started_while_its_end_is_copied_is_copied_again(
    backend: LocalBackend, parent: Server
) -> None:
    snapshot(backend, parent)
    append(backend, parent, 1)
    kill(backend, parent)
    child, source = new_server(backend.instances), Source(parent)
    restarting = Capturing(backend.instances, _Restarting(backend, parent))  # type: ignore[arg-type]
    assert restarting.capture(child, source) is None
    run_fork(backend, child, backend.restore.capture(child, source))
    assert rows_of(backend, child) == [1, 2]
