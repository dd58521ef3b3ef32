"""The contents of a fork, by a ledger, for every strategy, whatever happens to the parent during the fork."""

import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.process import postgres
from ramet.backends.local.restore.capture import Capturing
from ramet.backends.local.sql import connections
from ramet.backends.local.volumes.pool import Pool
from ramet.errors import Exhausted, Failed
from ramet.model.size import Size
from ramet.model.timestamps import rfc3339
from tests.backends.local.forks import (
    append,
    committed_until,
    create,
    digest_of,
    fork,
    now,
    paths_of,
    rows_of,
    run,
    run_fork,
    snapshot,
    writing,
)
from tests.backends.local.hosts import new_server

MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def lively(each_backend: LocalBackend) -> tuple[LocalBackend, Server]:
    """A backend of each driver, and a service in it."""
    return each_backend, create(each_backend)


def test_a_fork_as_of_now_holds_all_that_was_acknowledged(lively: tuple[LocalBackend, Server]) -> None:
    backend, parent = lively
    with writing(backend, parent, first=0) as writer:
        acknowledged = len(writer.acknowledged)
        forked = fork(backend, parent)
    rows = rows_of(backend, forked.server)
    assert acknowledged <= len(rows)
    assert rows == list(range(len(rows)))


def test_a_fork_of_a_target_time_contains_exactly_what_had_committed(lively: tuple[LocalBackend, Server]) -> None:
    backend, parent = lively
    snapshot_id, _ = snapshot(backend, parent)
    with writing(backend, parent, first=0):
        restore_time = now()
        eventually(lambda: len(rows_of(backend, parent)) > 200)
        forked = fork(backend, parent, snapshot_id, restore_time)
    assert rows_of(backend, forked.server) == committed_until(backend, parent, restore_time)


def test_a_fork_of_a_paused_service_holds_all_of_it(lively: tuple[LocalBackend, Server]) -> None:
    backend, parent = lively
    append(backend, parent, 1, 2)
    backend.servers.stop(parent)
    forked = fork(backend, parent, paused=True)
    assert rows_of(backend, forked.server) == [1, 2]
    assert forked.recovery["wal_replayed_bytes"] == 0


@pytest.mark.parametrize("paused", [False, True])
def test_a_target_time_is_exact_to_the_microsecond(backend: LocalBackend, parent: Server, paused: bool) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    committed = append(backend, parent, 1, 2, 3)
    if paused:
        backend.servers.stop(parent)

    def rows_at(restore_time: datetime) -> list[int]:
        return rows_of(backend, fork(backend, parent, snapshot_id, restore_time, paused=paused).server)

    assert rows_at(committed[1] - MICROSECOND) == [1]
    assert rows_at(committed[1]) == [1, 2]
    assert rows_at(committed[1] + MICROSECOND) == [1, 2]
    assert rows_at(committed[1] + (committed[2] - committed[1]) / 2) == [1, 2]
    assert rows_at(committed[2]) == [1, 2, 3]
    assert rows_at(now()) == [1, 2, 3]


def test_a_target_at_the_time_of_a_snapshot_contains_the_snapshot(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    snapshot_id, facts = snapshot(backend, parent)
    append(backend, parent, 2)
    assert rows_of(backend, fork(backend, parent, snapshot_id, facts.taken_at).server) == [1]


def test_a_fork_contains_all_that_was_committed_before_its_request(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    for number in range(5):
        append(backend, parent, number)
        forked = fork(backend, parent, snapshot_id, now())
        assert rows_of(backend, forked.server) == list(range(number + 1))


def test_a_target_that_the_clock_of_the_parent_is_far_from_is_refused_with_both_times(
    backend: LocalBackend, parent: Server
) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    ahead = now() + timedelta(hours=1)
    with pytest.raises(Failed, match="is later than the clock of service") as refused:
        backend.restore.capture(new_server(backend.instances), Source(parent, snapshot_id=snapshot_id, target=ahead))
    assert refused.value.code == "TARGET_TIME_IN_FUTURE"
    assert rfc3339(ahead) in refused.value.message


def test_a_target_slightly_ahead_of_the_parents_clock_is_waited_for(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    snapshot_id, _ = snapshot(backend, parent)
    child, source = new_server(backend.instances), Source(parent, snapshot_id=snapshot_id, target=now() + 3 * SECOND)
    assert backend.restore.capture(child, source) is None
    eventually(lambda: backend.restore.capture(child, source) is not None)
    backend.servers.destroy(child.service_id)


def test_targets_in_older_segments_are_found_in_the_archive(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    restore_times = []
    for number in range(4):
        (restore_time,) = append(backend, parent, number)
        restore_times.append(restore_time)
        _switch(backend, parent)
    for number, restore_time in enumerate(restore_times):
        forked = fork(backend, parent, snapshot_id, restore_time)
        assert rows_of(backend, forked.server) == list(range(number + 1))
        assert len(forked.capture.facts["segments"]) == number + 2


def test_wal_that_the_parent_has_removed_is_taken_from_the_archive(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    (restore_time,) = append(backend, parent, 1)
    paths = paths_of(backend, parent)
    for number in range(2, 5):
        append(backend, parent, number)
        _switch(backend, parent)
    eventually(lambda: len(list(paths.archive.iterdir())) > 4)
    with connections.connect(paths) as connection:
        connection.execute("CHECKPOINT")
    assert rows_of(backend, fork(backend, parent, snapshot_id, restore_time).server) == [1]


def test_a_target_time_before_a_pause_can_be_restored_after_it(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    (before,) = append(backend, parent, 1)
    backend.servers.stop(parent)
    while_paused = now()
    run(backend, parent)
    (after,) = append(backend, parent, 2)
    assert rows_of(backend, fork(backend, parent, snapshot_id, before - MICROSECOND).server) == []
    assert rows_of(backend, fork(backend, parent, snapshot_id, before).server) == [1]
    assert rows_of(backend, fork(backend, parent, snapshot_id, while_paused).server) == [1]
    assert rows_of(backend, fork(backend, parent, snapshot_id, after).server) == [1, 2]


def test_a_snapshot_of_a_paused_service_is_a_base_for_later_targets(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    backend.servers.stop(parent)
    snapshot_id, _ = snapshot(backend, parent, paused=True)
    run(backend, parent)
    (restore_time,) = append(backend, parent, 2)
    append(backend, parent, 3)
    assert rows_of(backend, fork(backend, parent, snapshot_id, restore_time).server) == [1, 2]


def test_a_target_time_before_a_crash_of_the_parent_can_be_restored(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    (before,) = append(backend, parent, 1)
    assert postgres.kill(paths_of(backend, parent), 10)
    run(backend, parent)
    append(backend, parent, 2)
    assert rows_of(backend, fork(backend, parent, snapshot_id, before).server) == [1]


def test_the_last_snapshot_of_a_crashed_parent_can_be_forked(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    snapshot_id, _ = snapshot(backend, parent)
    assert postgres.kill(paths_of(backend, parent), 10)
    assert rows_of(backend, fork(backend, parent, snapshot_id).server) == [1]


def test_a_fork_can_be_forked_and_restored_to_its_own_past(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    (restore_time,) = append(backend, parent, 1)
    child = fork(backend, parent, snapshot_id, restore_time).server
    for generation in range(2, 4):
        snapshot_id, _ = snapshot(backend, child)
        (restore_time,) = append(backend, child, generation)
        append(backend, child, 100 + generation)
        child = fork(backend, child, snapshot_id, restore_time).server
        assert rows_of(backend, child) == list(range(1, generation + 1))


def test_a_captured_fork_does_not_depend_on_its_parents_files(backend: LocalBackend) -> None:
    parent = create(backend)
    snapshot_id, _ = snapshot(backend, parent)
    (restore_time,) = append(backend, parent, 1)
    append(backend, parent, 2)
    sources = {
        (1, 2): Source(parent),
        (): Source(parent, snapshot_id=snapshot_id),
        (1,): Source(parent, snapshot_id=snapshot_id, target=restore_time),
    }
    captured = []
    for rows, source in sources.items():
        child = new_server(backend.instances)
        captured.append((child, backend.restore.capture(child, source), list(rows)))
    backend.servers.destroy(parent.service_id)
    for child, capture, wanted in captured:
        run_fork(backend, child, capture)
        assert rows_of(backend, child) == wanted


def test_a_fork_writes_nothing_into_its_parents_archive(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    (restore_time,) = append(backend, parent, 1)
    backend.servers.stop(parent)
    archive = paths_of(backend, parent).archive
    before = digest_of(archive)
    children = [
        fork(backend, parent, paused=True).server,
        fork(backend, parent, snapshot_id, restore_time, paused=True).server,
        fork(backend, parent, snapshot_id, paused=True).server,
    ]
    for child in children:
        append(backend, child, 7)
        _switch(backend, child)
        eventually(lambda child=child: any(paths_of(backend, child).archive.iterdir()))  # type: ignore[misc]
    assert digest_of(archive) == before


def test_a_forks_archive_holds_only_its_own_wal(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    append(backend, parent, 1)
    for forked in (fork(backend, parent), fork(backend, parent, snapshot_id, now())):
        child, paths = forked.server, paths_of(backend, forked.server)
        with connections.connect(paths) as connection:
            connection.execute("CHECKPOINT")
        append(backend, child, 2)
        _switch(backend, child)
        eventually(lambda paths=paths: any(paths.archive.iterdir()))  # type: ignore[misc]
        assert not set(forked.capture.facts["segments"]) & {path.name for path in paths.archive.iterdir()}


def test_what_belongs_to_the_parents_process_is_not_inherited(backend: LocalBackend, parent: Server) -> None:
    paths = paths_of(backend, parent)
    with connections.connect(paths) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot('mine', true)")
    (paths.data / "postgresql.auto.conf").write_text("work_mem = '123MB'\n")
    postgres.reload(paths)
    child = new_server(backend.instances)
    backend.restore.capture(child, Source(parent))
    data = paths_of(backend, child).data
    assert not {path.name for path in data.iterdir()} & {"postmaster.pid", "postmaster.opts", "backup_label.old"}
    assert (data / "postgresql.auto.conf").read_text() == ""
    captured = backend.restore.capture(child, Source(parent))
    run_fork(backend, child, captured)
    with connections.connect(paths_of(backend, child)) as connection:
        assert connection.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)
        assert connection.execute("SELECT 1 WHERE current_setting('work_mem') = '123MB'").fetchone() is None


def test_a_tablespace_is_refused_by_its_path(backend: LocalBackend, parent: Server) -> None:
    paths = paths_of(backend, parent)
    place = paths.root / "elsewhere"
    backend.instances.account.make_directory(place)
    with connections.connect(paths) as connection:
        connections.run(connection, "CREATE TABLESPACE far LOCATION {place}", place=str(place))
        with pytest.raises(Failed, match="symbolic link"):
            backend.restore.capture(new_server(backend.instances), Source(parent))
        connection.execute("DROP TABLESPACE far")
        assert connection.execute("SELECT pg_backup_start('free again', true) IS NOT NULL").fetchone() == (True,)


@pytest.mark.parametrize("target_given", [False, True])
def test_a_fork_may_be_smaller_than_its_parent(backend: LocalBackend, target_given: bool) -> None:
    parent = new_server(backend.instances, size=Size(4000, 16))
    backend.servers.initialize(parent)
    run(backend, parent)
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("CREATE TABLE public.ledger (n int PRIMARY KEY)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO public.ledger VALUES (9)")
        connection.execute("PREPARE TRANSACTION 'pending'")
    snapshot_id, _ = snapshot(backend, parent)
    (restore_time,) = append(backend, parent, 1)
    forked = fork(backend, parent, snapshot_id, restore_time) if target_given else fork(backend, parent)
    with connections.connect(paths_of(backend, forked.server)) as connection:
        assert connection.execute("SELECT count(*) FROM pg_prepared_xacts").fetchone() == (1,)
        assert connection.execute("SHOW max_connections").fetchone() == ("100",)
    assert rows_of(backend, forked.server) == [1]


def test_capturing_again_finds_what_was_captured(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    child = new_server(backend.instances)
    first = backend.restore.capture(child, Source(parent))
    append(backend, parent, 2)
    assert backend.restore.capture(child, Source(parent)) == first
    run_fork(backend, child, first)
    assert backend.restore.capture(child, Source(parent)) == first
    assert rows_of(backend, child) == [1]


class _Dying:
    """A driver whose process dies at its n-th copy."""

    def __init__(self, backend: LocalBackend, copies: int) -> None:
        self._driver = backend.pool.driver
        self._left = copies

    def __getattr__(self, name: str) -> object:
        return getattr(self._driver, name)

    def clone_tree(self, source: Path, target: Path, *exclusions: object) -> object:
        self._count()
        return self._driver.clone_tree(source, target, *exclusions)  # type: ignore[arg-type]

    def clone_file(self, source: Path, target: Path) -> None:
        self._driver.clone_file(source, target)
        self._count()

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("copies", range(4))
def test_a_capture_killed_at_any_point_is_repeated(backend: LocalBackend, parent: Server, copies: int) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    (restore_time,) = append(backend, parent, 1)
    _switch(backend, parent)
    append(backend, parent, 2)
    for source, rows in (
        (Source(parent, snapshot_id=snapshot_id, target=restore_time), [1]),
        (Source(parent), [1, 2]),
        (Source(parent, snapshot_id=snapshot_id), []),
    ):
        child = new_server(backend.instances)
        dying = Capturing(backend.instances, _Dying(backend, copies))  # type: ignore[arg-type]
        try:
            dying.capture(child, source)
        except KeyboardInterrupt:
            assert not paths_of(backend, child).data.exists()
        captured = backend.restore.capture(child, source)
        run_fork(backend, child, captured)
        assert rows_of(backend, child) == rows
        assert not list(paths_of(backend, child).root.glob("*unfinished*"))
        backend.servers.destroy(child.service_id)


def test_many_forks_of_one_parent_can_be_made_at_once(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(rows_of(backend, fork(backend, parent).server))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [[1]] * 4


def _switch(backend: LocalBackend, server: Server) -> None:
    with connections.connect(paths_of(backend, server)) as connection:
        connection.execute("SELECT pg_switch_wal()")


def test_a_recovery_ends_before_it_takes_the_space_for_the_wal_of_its_parent(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = new_server(backend.instances)
    captured = backend.restore.capture(child, Source(parent))
    assert captured is not None
    monkeypatch.setattr(Pool, "free_bytes", lambda _pool: 63 * 2**20)
    with pytest.raises(Exhausted, match="63 MiB left"):
        backend.restore.recover(child, captured, 0.5)
