"""Times before a restore in place whose server could not be stopped cleanly: nothing is missing, or that is said."""

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.restore import snapshots
from ramet.backends.local.sql import connections, foreign
from ramet.backends.local.sql.foreign import Foreign
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.wal import digests
from ramet.backends.local.wal.locate import WAL_DIRECTORY
from ramet.backends.local.wal.segment import segments_in
from ramet.errors import Failed
from ramet.model.gaps import Gap
from ramet.model.snapshot import Snapshot, SnapshotKind
from tests.backends.local.forks import append, exchange, fork, now, paths_of, rows_of, run, snapshot
from tests.backends.local.hosts import new_server
from tests.backends.local.segments import DISK_FAULTS, make_unreadable, overwrite


def damage_version(paths: ServicePaths) -> None:
    (paths.data / "PG_VERSION").write_text("x\n")


def damage_control_file(paths: ServicePaths) -> None:
    overwrite(paths.data / "global" / "pg_control", 16, bytes(64))


def lose_wal(paths: ServicePaths) -> None:
    shutil.rmtree(paths.data / "pg_wal")


def lose_wal_and_control_file(paths: ServicePaths) -> None:
    lose_wal(paths)
    damage_control_file(paths)


def lose_volume(paths: ServicePaths) -> None:
    shutil.rmtree(paths.data)


def break_down(backend: LocalBackend, server: Server, damage: Callable[[ServicePaths], None]) -> None:
    paths = paths_of(backend, server)
    assert postgres.kill(paths, 10)
    damage(paths)


def restore(backend: LocalBackend, server: Server, snapshot_id: str) -> tuple[Server, str]:
    """Restore a service in place to a snapshot; return the server with the state before, and the new snapshot."""
    _copy, previous, first_id = exchange(backend, server, snapshot_id)
    backend.replacements.end_timeline(server, previous)
    run(backend, server)
    backend.servers.destroy(previous.service_id)
    backend.replacements.end_timeline(server, previous)  # as an undo that runs again
    return previous, first_id


def gaps_of(backend: LocalBackend, server: Server) -> list[Gap]:
    bases = snapshots.in_wal_order(paths_of(backend, server))
    known = [Snapshot(name, server.service_id, SnapshotKind.SCHEDULED, **asdict(base.facts)) for name, base in bases]
    return list(backend.restore.gaps(server.service_id, known))


@pytest.mark.parametrize("damage", [damage_version, damage_control_file])
def test_all_that_a_server_had_committed_that_cannot_be_started_any_more_can_be_restored(
    backend: LocalBackend, parent: Server, damage: Callable[[ServicePaths], None]
) -> None:
    append(backend, parent, 1)
    kept, _facts = snapshot(backend, parent)
    append(backend, parent, 2)
    between = now()
    append(backend, parent, 3)
    last = now()
    break_down(backend, parent, damage)
    restore(backend, parent, kept)
    append(backend, parent, 4)
    assert gaps_of(backend, parent) == []
    for target, rows in ((between, [1, 2]), (last, [1, 2, 3])):
        assert rows_of(backend, fork(backend, parent, kept, target).server) == rows


@pytest.mark.parametrize("damage", [lose_wal, lose_wal_and_control_file, lose_volume])
def test_what_was_lost_with_the_data_of_a_server_is_a_gap(
    backend: LocalBackend, parent: Server, damage: Callable[[ServicePaths], None]
) -> None:
    append(backend, parent, 1)
    kept, facts = snapshot(backend, parent)
    append(backend, parent, 2)
    lost_at = now()
    break_down(backend, parent, damage)
    _previous, first_id = restore(backend, parent, kept)
    ended_at = snapshots.base_of(paths_of(backend, parent), first_id).facts.taken_at
    found = gaps_of(backend, parent)
    assert [(gap.begins_at, gap.ends_at) for gap in found] == [(facts.taken_at, ended_at)]
    assert "is missing" in found[0].reason
    with pytest.raises(Failed) as raised:
        fork(backend, parent, kept, lost_at)
    assert raised.value.code == "WAL_MISSING"


def test_a_segment_that_is_lost_after_the_exchange_is_a_gap(backend: LocalBackend, parent: Server) -> None:
    kept, _facts = snapshot(backend, parent)
    append(backend, parent, 1)
    lost_at = now()
    restore(backend, parent, kept)
    paths = paths_of(backend, parent)
    last = max(segment for segment in segments_in(paths.archive) if segment.timeline == 1)
    (paths.archive / last.name).unlink()
    assert [gap.contains(lost_at) for gap in gaps_of(backend, parent)] == [True]
    with pytest.raises(Failed, match=f"WAL segment {last.name} is missing"):
        fork(backend, parent, kept, lost_at)


def test_a_segment_that_cannot_be_read_keeps_no_other_one_from_the_archive(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept, _facts = snapshot(backend, parent)
    for number in (1, 2, 3):
        append(backend, parent, number)
        with connections.connect(paths_of(backend, parent)) as connection:
            connection.execute("SELECT pg_switch_wal()")
    break_down(backend, parent, damage_version)
    _copy, previous, _first_id = exchange(backend, parent, kept)
    archive, wal = paths_of(backend, parent).archive, paths_of(backend, previous).data / WAL_DIRECTORY
    backend.replacements.end_timeline(parent, previous)
    names = [segment.name for segment in sorted({*segments_in(archive)} & {*segments_in(wal)})][-3:]
    for name in names:
        (archive / name).unlink()
    driver = type(backend.replacements.driver)
    clone_file = driver.clone_file

    def failing(self: Driver, source: Path, target: Path) -> None:
        if source.name == names[1]:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        clone_file(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(driver, "clone_file", failing)
        with pytest.raises(OSError, match="Too many open files"):  # it says nothing about the segment
            backend.replacements.end_timeline(parent, previous)
    for number in DISK_FAULTS:
        caplog.clear()
        with monkeypatch.context() as patched:
            make_unreadable(patched, wal / names[1], number)
            backend.replacements.end_timeline(parent, previous)
        assert [name for name in names if (archive / name).exists()] == [names[0], names[2]]
        assert f"segment {names[1]} of service {parent.service_id} before its restore is not archived" in caplog.text


@pytest.mark.parametrize("number", DISK_FAULTS)
def test_what_was_not_archived_is_a_gap_where_the_directory_of_the_wal_cannot_be_read(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    kept, _facts = snapshot(backend, parent)
    append(backend, parent, 1)
    lost_at = now()
    break_down(backend, parent, damage_control_file)
    _copy, previous, _first_id = exchange(backend, parent, kept)
    with monkeypatch.context() as patched:
        make_unreadable(patched, paths_of(backend, previous).data / WAL_DIRECTORY, number)
        backend.replacements.end_timeline(parent, previous)
    assert [gap.contains(lost_at) for gap in gaps_of(backend, parent)] == [True]


def test_an_exchange_that_is_undone_leaves_the_archive_to_the_server(backend: LocalBackend, parent: Server) -> None:
    kept, _facts = snapshot(backend, parent)
    append(backend, parent, 1)
    copy, previous = (replace(new_server(backend.instances), port=0) for _ in range(2))
    backend.instances.make_directories(copy)
    break_down(backend, parent, damage_version)
    backend.replacements.release(parent, copy)
    backend.replacements.move_data(parent, previous)
    backend.replacements.move_data(previous, parent)
    paths = paths_of(backend, parent)
    (paths.data / "PG_VERSION").write_text(f"{parent.pg_major}\n")
    run(backend, parent)
    append(backend, parent, 2)
    target = now()
    assert rows_of(backend, fork(backend, parent, kept, target).server) == [1, 2]


@pytest.mark.parametrize("damage", [None, damage_version, lose_volume])
@pytest.mark.parametrize("runs", [False, True])
def test_an_exchange_that_is_undone_leaves_nothing_of_its_timeline_in_the_archive(
    backend: LocalBackend, parent: Server, damage: Callable[[ServicePaths], None] | None, runs: bool
) -> None:
    kept, _facts = snapshot(backend, parent)
    append(backend, parent, 1)
    before = now()
    if damage is not None:
        break_down(backend, parent, damage)
    copy, previous, first_id = exchange(backend, parent, kept)
    paths = paths_of(backend, parent)
    if runs:
        run(backend, parent)
        append(backend, parent, 9)
        digests.record(paths, 10.0)
    for _ in range(2):
        backend.replacements.close(parent)
        backend.replacements.withdraw_timeline(parent, previous)
        backend.replacements.move_data(parent, copy, [first_id])
    backend.replacements.move_data(previous, parent)
    # A server that is ended at once can leave the segment that it was about to archive under a temporary name.
    kept_names = ("00000001", "archtemp.")
    assert [path.name for path in paths.archive.iterdir() if not path.name.startswith(kept_names)] == []
    assert {name[:8] for name in digests.digests(paths)} <= {"00000001"}
    if damage is not lose_volume:
        (paths.data / "PG_VERSION").write_text(f"{parent.pg_major}\n")
        run(backend, parent)
        append(backend, parent, 2)
        after = now()
        append(backend, parent, 3)
        assert gaps_of(backend, parent) == []
        for target, rows in ((before, [1]), (after, [1, 2])):
            assert rows_of(backend, fork(backend, parent, kept, target).server) == rows


@pytest.mark.parametrize("is_kept", [True, False], ids=["snapshot", "record"])
def test_a_time_after_an_exchange_is_refused_of_a_snapshot_from_before_it(
    backend: LocalBackend, parent: Server, is_kept: bool
) -> None:
    """A store from a backup knows no snapshot from after the exchange."""
    kept, _facts = snapshot(backend, parent)
    append(backend, parent, 1)
    before = now()
    append(backend, parent, 2)
    _previous, first_id = restore(backend, parent, kept)
    append(backend, parent, 3)
    after = now()
    if not is_kept:
        backend.restore.delete_snapshot(parent.service_id, first_id)
    with pytest.raises(Failed) as raised:
        fork(backend, parent, kept, after)
    assert raised.value.code == "SNAPSHOT_UNKNOWN"
    assert rows_of(backend, fork(backend, parent, kept, before).server) == [1]


def test_the_wal_of_a_timeline_that_was_left_goes_with_its_last_snapshot(backend: LocalBackend, parent: Server) -> None:
    """Where a service is set back again and again, no snapshot is ever behind what was written before."""
    kept, _facts = snapshot(backend, parent)
    append(backend, parent, 1, 2)
    _previous, first_id = restore(backend, parent, kept)
    append(backend, parent, 3)
    between = now()
    append(backend, parent, 4)
    backend.restore.delete_snapshot(parent.service_id, kept)
    paths = paths_of(backend, parent)
    assert {1} <= {segment.timeline for segment in segments_in(paths.archive)}
    oldest = snapshots.base_of(paths, first_id).facts
    assert backend.restore.discard_wal(parent.service_id, oldest) > 0
    assert {segment.timeline for segment in segments_in(paths.archive)} <= {oldest.timeline}
    assert gaps_of(backend, parent) == []
    assert rows_of(backend, fork(backend, parent, first_id, between).server) == [3]
    assert rows_of(backend, fork(backend, parent, first_id).server) == []


def test_a_copy_in_which_the_platform_has_no_role_yet_does_not_start_quietly(
    backend: LocalBackend, parent: Server
) -> None:
    """A checkpoint from before a promotion is such a copy: it must be adopted before it is served."""
    kept, _facts = snapshot(backend, parent)
    copy = replace(new_server(backend.instances), port=0)
    captured = backend.restore.capture(copy, Source(parent, snapshot_id=kept))
    assert captured is not None
    eventually(lambda: backend.restore.recover(copy, captured, 0.5).facts is not None)
    eventually(lambda: backend.replacements.leave_timeline(copy, parent.service_id, 0.5) is None)
    assert backend.replacements.starts_quietly(copy)
    foreign.write(paths_of(backend, copy), Foreign("postgres", "app"))
    assert not backend.replacements.starts_quietly(copy)
