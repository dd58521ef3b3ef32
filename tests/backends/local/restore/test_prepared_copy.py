"""Prepared snapshots: forks of them begin cleanly stopped, and hold what the snapshot holds, no more and no less."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Capture, Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.restore import prepared_copy, snapshots
from ramet.backends.local.restore.base_backup import copy_running
from ramet.backends.local.restore.capture import Capturing
from ramet.backends.local.sql import connections
from ramet.backends.local.volumes.driver import NOTHING, CloneStatistics, Exclusions
from ramet.errors import Failed
from ramet.ids import new_id
from tests.backends.local.forks import append, digest_of, fork, killed_preparation, paths_of, rows_of, snapshot
from tests.backends.local.segments import overwrite

pytestmark = pytest.mark.root  # where blocks cannot be shared, nothing is prepared


def prepared(backend: LocalBackend, parent: Server, spares: int = 0) -> str:
    snapshot_id, _ = snapshot(backend, parent)
    eventually(lambda: backend.restore.prepare_snapshot(parent, snapshot_id, 0.5, spares) is None)
    return snapshot_id


def is_prepared(capture: Capture) -> bool:
    return "prepared" in capture.facts


def test_a_fork_of_a_prepared_snapshot_holds_its_rows_without_replaying(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1, 2)
    snapshot_id = prepared(backend, parent)
    append(backend, parent, 3)
    forked = fork(backend, parent, snapshot_id)
    assert is_prepared(forked.capture)
    assert forked.recovery["wal_replayed_bytes"] == 0
    assert rows_of(backend, forked.server) == [1, 2]
    append(backend, forked.server, 4)
    assert rows_of(backend, fork(backend, parent, snapshot_id).server) == [1, 2]


def test_a_fork_of_now_begins_with_the_snapshot_of_an_unchanged_parent(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    prepared(backend, parent)
    unchanged = fork(backend, parent)
    assert is_prepared(unchanged.capture)
    assert rows_of(backend, unchanged.server) == [1]
    append(backend, parent, 2)
    changed = fork(backend, parent)
    assert not is_prepared(changed.capture)
    assert rows_of(backend, changed.server) == [1, 2]


def test_a_transaction_that_ran_during_the_snapshot_counts_as_a_change(backend: LocalBackend, parent: Server) -> None:
    with connections.connect(paths_of(backend, parent)) as connection, connection.transaction():
        connection.execute("INSERT INTO public.ledger (n) VALUES (1)")
        prepared(backend, parent)
    forked = fork(backend, parent)
    assert not is_prepared(forked.capture)
    assert rows_of(backend, forked.server) == [1]


def test_a_transaction_that_only_runs_is_in_no_fork(backend: LocalBackend, parent: Server) -> None:
    prepared(backend, parent)
    with connections.connect(paths_of(backend, parent)) as connection, connection.transaction():
        connection.execute("INSERT INTO public.ledger (n) VALUES (1)")
        assert rows_of(backend, fork(backend, parent).server) == []
    assert rows_of(backend, fork(backend, parent).server) == [1]


def test_a_transaction_that_was_prepared_since_is_in_the_fork(backend: LocalBackend, parent: Server) -> None:
    prepared(backend, parent)
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO public.ledger (n) VALUES (1)")
        connection.execute("PREPARE TRANSACTION 'kept'")
        forked = fork(backend, parent).server
        connection.execute("ROLLBACK PREPARED 'kept'")
    with connections.connect(paths_of(backend, forked)) as connection:
        connection.execute("COMMIT PREPARED 'kept'")
    assert rows_of(backend, forked) == [1]


def test_preparing_changes_neither_the_snapshot_nor_the_archive(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    snapshot_id = prepared(backend, parent)
    (restore_time,) = append(backend, parent, 2)
    before = digest_of(paths_of(backend, parent).archive)
    fork(backend, parent, snapshot_id)
    after = digest_of(paths_of(backend, parent).archive)
    assert {name: after[name] for name in before} == before
    assert rows_of(backend, fork(backend, parent, snapshot_id, restore_time).server) == [1, 2]


def test_a_killed_preparation_continues(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    snapshot_id, _ = snapshot(backend, parent)
    unfinished = killed_preparation(backend, parent, snapshot_id)
    inode = unfinished.stat().st_ino
    eventually(lambda: backend.restore.prepare_snapshot(parent, snapshot_id, 0.5, 0) is None)
    assert unfinished.with_name("prepared").stat().st_ino == inode
    assert rows_of(backend, fork(backend, parent, snapshot_id).server) == [1]


class _Slow:
    """A driver that copies the control file later than all else: after a commit and a checkpoint of the parent."""

    def __init__(self, backend: LocalBackend, parent: Server) -> None:
        self._backend, self._parent = backend, parent

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend.pool.driver, name)

    def clone_tree(self, source: Path, target: Path, exclusions: Exclusions = NOTHING) -> CloneStatistics:
        made = self._backend.pool.driver.clone_tree(source, target, exclusions)
        append(self._backend, self._parent, 2)
        with connections.connect(paths_of(self._backend, self._parent)) as connection:
            connection.execute("CHECKPOINT")
        shutil.copy(source / "global" / "pg_control", target / "global" / "pg_control")
        return made


def test_a_preparation_from_before_a_restart_of_the_host_is_not_continued(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(backend, parent, 1)
    driver, paths, snapshot_id = backend.pool.driver, paths_of(backend, parent), new_id()
    slow: Any = _Slow(backend, parent)
    snapshots.make(driver, paths, snapshot_id, lambda _driver, target: copy_running(slow, paths, target))
    unfinished = killed_preparation(backend, parent, snapshot_id)
    # The removal of the label is on disk, and nothing else that recovery wrote.
    driver.remove_tree(unfinished)
    driver.clone_tree(snapshots.data_of(paths, snapshot_id), unfinished)
    (unfinished / "backup_label").unlink()
    monkeypatch.setattr(prepared_copy, "boot_id", lambda: "another")
    eventually(lambda: backend.restore.prepare_snapshot(parent, snapshot_id, 0.5, 0) is None)
    assert not unfinished.exists()
    assert rows_of(backend, fork(backend, parent, snapshot_id).server) == [1, 2]


def test_a_prepared_copy_without_its_record_is_made_again(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    snapshot_id = prepared(backend, parent)
    (snapshots.directory_of(paths_of(backend, parent), snapshot_id) / "prepared.json").unlink()
    eventually(lambda: backend.restore.prepare_snapshot(parent, snapshot_id, 0.5, 0) is None)
    assert rows_of(backend, fork(backend, parent, snapshot_id).server) == [1]


def test_a_snapshot_that_cannot_be_recovered_is_reported(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    paths = paths_of(backend, parent)
    data = snapshots.data_of(paths, snapshot_id)
    (segment,) = (data / "pg_wal").glob("0*")
    overwrite(segment, 0xD0, bytes(8192 - 0xD0))
    with pytest.raises(Failed, match="damaged at"):
        eventually(lambda: backend.restore.prepare_snapshot(parent, snapshot_id, 0.5, 0) is None)
    backend.restore.discard_preparation(parent.service_id, snapshot_id)
    assert {path.name for path in snapshots.directory_of(paths, snapshot_id).iterdir()} == {
        "data",
        "base.json",
        "prepare.log",
    }


def test_the_spare_is_moved_to_one_fork_and_made_again(backend: LocalBackend, parent: Server) -> None:
    if backend.pool.driver.atomic:
        pytest.skip("a copy costs no more than a move here")
    append(backend, parent, 1)
    snapshot_id = prepared(backend, parent)
    (spare,) = spares(backend, parent, snapshot_id)
    inode = spare.stat().st_ino
    first, second = (fork(backend, parent, snapshot_id).server for _ in range(2))
    assert paths_of(backend, first).data.stat().st_ino == inode
    assert not spares(backend, parent, snapshot_id)
    for forked in (first, second):
        append(backend, forked, 2)
        assert rows_of(backend, forked) == [1, 2]
    assert prepared_again(backend, parent, snapshot_id) == [spare]
    assert rows_of(backend, fork(backend, parent, snapshot_id).server) == [1]


def test_forks_that_come_at_once_find_a_spare_each(backend: LocalBackend, parent: Server) -> None:
    if backend.pool.driver.atomic:
        pytest.skip("a copy costs no more than a move here")
    append(backend, parent, 1)
    snapshot_id = prepared(backend, parent, 1)
    progress = backend.restore.prepare_snapshot(parent, snapshot_id, 0.5, 3)
    assert progress == "1 of 3 spare copies are still to be created"
    assert backend.restore.prepare_snapshot(parent, snapshot_id, 0.5, 3) is None
    inodes = {spare.stat().st_ino for spare in spares(backend, parent, snapshot_id, "secured-")}
    assert len(inodes) == 3
    with ThreadPoolExecutor(3) as clients:
        forks = list(clients.map(lambda _: fork(backend, parent, snapshot_id, neutralize=True).server, range(3)))
    assert {paths_of(backend, forked).data.stat().st_ino for forked in forks} == inodes
    assert [rows_of(backend, forked) for forked in forks] == [[1]] * 3
    assert not spares(backend, parent, snapshot_id, "secured-")


def test_a_spare_from_before_a_restart_of_the_host_is_not_trusted(backend: LocalBackend, parent: Server) -> None:
    if backend.pool.driver.atomic:
        pytest.skip("a copy costs no more than a move here")
    snapshot_id = prepared(backend, parent)
    (spare,) = spares(backend, parent, snapshot_id)
    old = spare.rename(spare.with_name("spare-of-another-boot"))
    (old / "global" / "pg_control").write_bytes(b"")
    assert rows_of(backend, fork(backend, parent, snapshot_id).server) == []
    assert prepared_again(backend, parent, snapshot_id) == [spare]
    backend.restore.discard_preparation(parent.service_id, snapshot_id)
    assert not spares(backend, parent, snapshot_id)


def spares(backend: LocalBackend, parent: Server, snapshot_id: str, kind: str = "") -> list[Path]:
    return list(snapshots.directory_of(paths_of(backend, parent), snapshot_id).glob(f"{kind}spare-*"))


def prepared_again(backend: LocalBackend, parent: Server, snapshot_id: str) -> list[Path]:
    assert backend.restore.prepare_snapshot(parent, snapshot_id, 0.5, 0) is None
    return spares(backend, parent, snapshot_id)


class _Removing:
    """A driver under whose hands the prepared copy goes away."""

    def __init__(self, backend: LocalBackend, parent: Server, snapshot_id: str) -> None:
        self._backend, self._parent, self._snapshot_id = backend, parent, snapshot_id

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend.pool.driver, name)

    def clone_tree(self, source: object, target: object, exclusions: Exclusions = NOTHING) -> CloneStatistics:
        made = self._backend.pool.driver.clone_tree(source, target, exclusions)  # type: ignore[arg-type]
        self._backend.restore.discard_preparation(self._parent.service_id, self._snapshot_id)
        return made


def test_a_prepared_copy_that_is_removed_during_copying_is_not_used(backend: LocalBackend, parent: Server) -> None:
    snapshot_id = prepared(backend, parent)
    paths = paths_of(backend, parent)
    target = paths.root / "target"
    for spare in spares(backend, parent, snapshot_id):
        backend.pool.driver.remove_tree(spare)
    removing = _Removing(backend, parent, snapshot_id)
    assert prepared_copy.capture(removing, paths, snapshot_id, target, parent, None) is None  # type: ignore[arg-type]
    assert not target.exists()
    assert not is_prepared(fork(backend, parent, snapshot_id).capture)


@pytest.mark.parametrize("is_before", [True, False])
def test_a_snapshot_that_is_deleted_while_it_is_copied_fails_no_fork_of_now(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch, is_before: bool
) -> None:
    append(backend, parent, 1)
    snapshot_id = prepared(backend, parent)
    copy = Capturing._copy_snapshot

    def copied(*arguments: Any) -> Capture:
        made = None if is_before else copy(*arguments)
        backend.restore.delete_snapshot(parent.service_id, snapshot_id)
        return made or copy(*arguments)

    monkeypatch.setattr(Capturing, "_copy_snapshot", copied)
    forked = fork(backend, parent)
    assert not is_prepared(forked.capture)
    assert rows_of(backend, forked.server) == [1]


def test_preparations_at_once_do_not_hinder_each_other(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    snapshot_id, _ = snapshot(backend, parent)

    def prepare() -> None:
        eventually(lambda: backend.restore.prepare_snapshot(parent, snapshot_id, 0.05, 4) is None)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(prepare) for _ in range(4)]:
            done.result()
    forked = fork(backend, parent, snapshot_id)
    assert is_prepared(forked.capture)
    assert rows_of(backend, forked.server) == [1]
