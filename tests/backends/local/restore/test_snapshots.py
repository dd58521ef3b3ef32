"""Snapshots: what they hold, that they are made once, and that nothing half made has their name."""

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from ramet.backends.interface.values import Primary, Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host import files
from ramet.backends.local.process import postgres
from ramet.backends.local.restore import base_backup, capture, snapshots
from ramet.backends.local.restore.base_backup import copy_running
from ramet.backends.local.sql import connections
from ramet.backends.local.volumes import helper_process
from ramet.backends.local.wal.locate import WAL_DIRECTORY
from ramet.backends.local.wal.segment import SEGMENT_BYTES, segments_in
from ramet.errors import Failed, Unseen
from ramet.ids import new_id
from tests.backends.local.forks import append, create, destroy_all, fork, now, paths_of, rows_of, run, snapshot, writing
from tests.backends.local.hosts import new_server
from tests.backends.local.rewinds import prepared, rewind
from tests.backends.local.segments import bytes_on_disk


@pytest.fixture(scope="module")
def made(usual_backend: LocalBackend) -> Iterator[Server]:
    yield create(usual_backend)
    destroy_all(usual_backend)


@pytest.fixture
def shared(backend: LocalBackend, made: Server) -> Iterator[Server]:
    """A running service with some rows and without a snapshot, which tests may add rows to and leave running."""
    yield made
    directory = paths_of(backend, made).snapshots
    for snapshot_id in [path.name for path in directory.iterdir()]:
        backend.restore.delete_snapshot(made.service_id, snapshot_id)
    assert not list(directory.iterdir())


def more(backend: LocalBackend, server: Server) -> datetime:
    """Append a row; return its commit timestamp."""
    return append(backend, server, len(rows_of(backend, server)))[0]


def test_forks_of_one_snapshot_hold_its_rows_and_no_later_ones(each_backend: LocalBackend) -> None:
    backend = each_backend
    parent = create(backend)
    append(backend, parent, 1, 2)
    snapshot_id, _ = snapshot(backend, parent)
    append(backend, parent, 3)
    assert rows_of(backend, fork(backend, parent, snapshot_id).server) == [1, 2]
    assert rows_of(backend, fork(backend, parent, snapshot_id).server) == [1, 2]


def test_a_snapshot_under_load_holds_all_that_was_acknowledged_and_no_hole(
    backend: LocalBackend, parent: Server
) -> None:
    with writing(backend, parent, first=0) as writer:
        before = len(writer.acknowledged)
        snapshot_id, facts = snapshot(backend, parent)
    rows = rows_of(backend, fork(backend, parent, snapshot_id).server)
    assert before <= len(rows) <= len(writer.acknowledged)
    assert rows == list(range(len(rows)))
    with connections.connect(paths_of(backend, parent)) as connection:
        query = "SELECT max(pg_xact_commit_timestamp(xmin)) FROM public.ledger WHERE n <= %s"
        newest = connection.execute(query, (rows[-1],)).fetchone()
    assert newest is not None
    assert newest[0] <= facts.taken_at


@pytest.mark.root
def test_the_wal_of_a_snapshot_takes_the_blocks_of_its_records(each_backend: LocalBackend) -> None:
    backend = each_backend
    parent = create(backend)
    append(backend, parent, 1)
    checkpoint = prepared(backend, parent)
    first = rewind(backend, parent, checkpoint)
    for snapshot_id in (checkpoint, first):
        wal = snapshots.data_of(paths_of(backend, parent), snapshot_id) / WAL_DIRECTORY
        sizes = [bytes_on_disk(wal / segment.name) for segment in segments_in(wal)]
        assert sizes
        assert max(sizes) < SEGMENT_BYTES // 8
        assert rows_of(backend, fork(backend, parent, snapshot_id).server) == [1]


def test_a_snapshot_of_a_paused_service_starts_without_recovery(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    backend.servers.stop(parent)
    snapshot_id, facts = snapshot(backend, parent, paused=True)
    assert facts.start_lsn == facts.end_lsn
    forked = fork(backend, parent, snapshot_id)
    assert rows_of(backend, forked.server) == [1]
    assert forked.capture.facts["clean"]
    assert forked.recovery["wal_replayed_bytes"] == 0


def test_a_snapshot_of_a_running_server_cannot_pass_for_one_of_a_paused(backend: LocalBackend, shared: Server) -> None:
    with pytest.raises(Failed, match="not shut down cleanly"):
        backend.restore.take_snapshot(shared, new_id(), True)


def test_a_snapshot_that_is_removed_while_the_records_are_read_does_no_harm(
    backend: LocalBackend, shared: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, (kept, _), (gone, _) = paths_of(backend, shared), snapshot(backend, shared), snapshot(backend, shared)
    read = files.read_bytes

    def read_and_remove(path: Path) -> bytes:
        found = read(path)
        if path.parent.name == gone:
            backend.restore.delete_snapshot(shared.service_id, gone)
        return found

    monkeypatch.setattr(files, "read_bytes", read_and_remove)
    assert kept in [name for name, _ in snapshots.in_wal_order(paths)]
    assert gone not in [name for name, _base in snapshots.in_wal_order(paths)]


def test_taking_a_snapshot_twice_makes_it_once(backend: LocalBackend, shared: Server) -> None:
    snapshot_id, facts = snapshot(backend, shared)
    before = rows_of(backend, shared)
    more(backend, shared)
    assert backend.restore.take_snapshot(shared, snapshot_id, False) == facts
    assert rows_of(backend, fork(backend, shared, snapshot_id).server) == before


def test_a_failed_snapshot_leaves_nothing_under_its_name_and_no_backup_mode(
    backend: LocalBackend, shared: Server
) -> None:
    paths, snapshot_id = paths_of(backend, shared), new_id()

    def fail_after_cloning(target: Path) -> None:
        raise OSError(f"no power while {target} was made")

    class Dying:
        def __getattr__(self, name: str) -> object:
            return getattr(backend.pool.driver, name)

        def clone_tree(self, _source: Path, target: Path, _exclusions: object) -> None:
            target.mkdir()
            fail_after_cloning(target)

    with pytest.raises(OSError, match="no power"):
        snapshots.make(
            backend.pool.driver,
            paths,
            snapshot_id,
            lambda _driver, target: copy_running(Dying(), paths, target),  # type: ignore[arg-type]
        )
    assert not (paths.snapshots / snapshot_id).exists()
    facts = backend.restore.take_snapshot(shared, snapshot_id, False)
    assert facts is not None
    assert {path.name for path in paths.snapshots.iterdir()} == {snapshot_id}


def test_a_server_that_is_down_is_asked_again_later(backend: LocalBackend, parent: Server) -> None:
    assert postgres.kill(paths_of(backend, parent), 10)
    assert backend.restore.take_snapshot(parent, new_id(), False) is None
    run(backend, parent)
    snapshot(backend, parent)


def test_a_helper_process_that_dies_during_a_copy_says_nothing_about_the_server_that_is_copied(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        helper_process.call(os._exit, 1)

    for module in (base_backup, capture):
        monkeypatch.setattr(module, "copy_running", die)
    replica = new_server(backend.instances, primary=Primary(parent.service_id, parent.port))
    for make in (
        lambda: backend.restore.take_snapshot(parent, new_id(), False),
        lambda: backend.restore.capture(new_server(backend.instances), Source(parent)),
        lambda: backend.replicas.create(replica),
    ):
        with pytest.raises(Unseen) as failed:
            make()
        assert failed.value.code == "HELPER_DIED"


def test_a_dropped_snapshot_is_gone_and_may_be_dropped_again(each_backend: LocalBackend) -> None:
    backend = each_backend
    parent = create(backend)
    kept, _ = snapshot(backend, parent)
    dropped, _ = snapshot(backend, parent)
    for _ in range(2):
        backend.restore.delete_snapshot(parent.service_id, dropped)
        assert [path.name for path in paths_of(backend, parent).snapshots.iterdir()] == [kept]
        assert backend.restore.snapshot_ids(parent.service_id) == frozenset({kept})
    with pytest.raises(Failed, match="are missing"):
        fork(backend, parent, dropped)


def test_a_fork_outlives_the_snapshot_that_it_came_from(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    snapshot_id, _ = snapshot(backend, parent)
    forked = fork(backend, parent, snapshot_id)
    backend.restore.delete_snapshot(parent.service_id, snapshot_id)
    assert postgres.stop(paths_of(backend, forked.server), 20)
    run(backend, forked.server)
    assert rows_of(backend, forked.server) == [1]


def test_a_transaction_that_was_open_during_a_snapshot_counts_as_written_since(
    backend: LocalBackend, shared: Server
) -> None:
    before = rows_of(backend, shared)
    with connections.connect(paths_of(backend, shared)) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO public.ledger (n) VALUES (%s)", (len(before),))
        snapshot_id, facts = snapshot(backend, shared)
        connection.execute("COMMIT")
    assert rows_of(backend, fork(backend, shared, snapshot_id).server) == before
    assert backend.restore.written_since(shared, facts) != 0


def test_the_time_of_a_snapshot_is_before_all_that_commits_later(backend: LocalBackend, shared: Server) -> None:
    _, facts = snapshot(backend, shared)
    committed_at = more(backend, shared)
    assert facts.taken_at < committed_at
    assert facts.taken_at <= now()


def test_a_snapshot_whose_removal_was_killed_is_dropped_whole(backend: LocalBackend, shared: Server) -> None:
    snapshot_id, _ = snapshot(backend, shared)
    directory = paths_of(backend, shared).snapshots
    (directory / snapshot_id).rename(directory / f".{snapshot_id}.unfinished.partial-00c0ffee")
    backend.restore.delete_snapshot(shared.service_id, snapshot_id)
    assert not list(directory.iterdir())


def test_snapshots_with_truncated_records_are_ignored(backend: LocalBackend, shared: Server) -> None:
    more(backend, shared)
    paths = paths_of(backend, shared)
    for text in ("", '{"facts": {"taken_at": "2026-1', "[]"):
        snapshot_id, _ = snapshot(backend, shared)
        (snapshots.directory_of(paths, snapshot_id) / "base.json").write_text(text)
        with pytest.raises(Failed, match="unreadable"):
            snapshots.base_of(paths, snapshot_id)
    assert snapshots.in_wal_order(paths) == []
    assert rows_of(backend, fork(backend, shared).server) == rows_of(backend, shared)
