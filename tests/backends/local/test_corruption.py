"""Wrong ways of copying, and damaged WAL: each is caught before a fork is READY, by an error that names the cause."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host import files
from ramet.backends.local.restore import snapshots
from ramet.backends.local.restore.base_backup import NOT_DATA
from ramet.backends.local.restore.point_in_time import RECOVER_TO_LSN
from ramet.backends.local.sql import connections
from ramet.backends.local.wal.segment import SEGMENT_BYTES, Segment, segments_in, shown_lsn
from ramet.errors import Failed
from ramet.model.fork import parse_target_time
from ramet.model.snapshot import lsn_number
from ramet.model.timestamps import rfc3339
from tests import clusters
from tests.backends.local.forks import append, create, destroy_all, fork, now, paths_of, recover, rows_of, run, snapshot
from tests.backends.local.hosts import new_server
from tests.backends.local.segments import overwrite


class Past:
    """A paused service with a snapshot and four segments behind it, the n-th of which holds the row n."""

    def __init__(self, backend: LocalBackend, parent: Server) -> None:
        self.backend, self.parent = backend, parent
        self.paths = paths_of(backend, parent)
        self.snapshot_id, self.facts = snapshot(backend, parent)
        self.restore_times: list[datetime] = []
        for number in range(4):
            append(backend, parent, 10 * number)
            self.restore_times += append(backend, parent, 10 * number + 1)
            with connections.connect(self.paths) as connection:
                connection.execute("SELECT pg_switch_wal()")
        backend.servers.stop(parent)
        first = segments_in(snapshots.data_of(self.paths, self.snapshot_id) / "pg_wal")[0]
        self.segments = [Segment(first.timeline, first.number + 1 + number) for number in range(4)]
        for segment in self.segments:
            assert (self.paths.archive / segment.name).exists()
            (self.paths.data / "pg_wal" / segment.name).unlink(missing_ok=True)

    def archived(self, number: int) -> Path:
        return self.paths.archive / self.segments[number].name

    def fork_of(self, restore_time: datetime) -> list[int]:
        forked = fork(self.backend, self.parent, self.snapshot_id, restore_time, paused=True)
        return rows_of(self.backend, forked.server)


@pytest.fixture(scope="module")
def made_past(usual_backend: LocalBackend) -> Iterator[Past]:
    yield Past(usual_backend, create(usual_backend))
    destroy_all(usual_backend)


@pytest.fixture
def past(backend: LocalBackend, made_past: Past, tmp_path: Path) -> Iterator[Past]:
    """The past that these tests share; afterwards its archive is what it was."""
    kept, archive = tmp_path / "archive", made_past.paths.archive
    subprocess.run(["cp", "--archive", archive, kept], check=True)
    yield made_past
    for path in archive.iterdir():
        path.unlink()
    subprocess.run(["cp", "--archive", f"{kept}/.", archive], check=True)


def _remove(past: Past, path: Path) -> None:
    path.unlink()


def _truncate(past: Past, path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(8192 * 3)


def _replace_by_another_services(past: Past, path: Path) -> None:
    with clusters.own():
        other = create(past.backend)
    paths = paths_of(past.backend, other)
    while not (paths.archive / path.name).exists():
        with connections.connect(paths) as connection:
            connection.execute("SELECT pg_switch_wal() FROM pg_logical_emit_message(true, 'more', '')")
        append(past.backend, other, len(rows_of(past.backend, other)))
    shutil.copy(paths.archive / path.name, path)


def _replace_by_its_neighbour(past: Past, path: Path) -> None:
    shutil.copy(past.archived(3), path)


def _blank(past: Past, path: Path) -> None:
    path.write_bytes(bytes(SEGMENT_BYTES))


@pytest.mark.parametrize(
    ("mutate", "cause"),
    [
        (_remove, "is missing"),
        (_truncate, "has 24576 bytes"),
        (_replace_by_another_services, "belongs to the cluster"),
        (_replace_by_its_neighbour, "contains the WAL from"),
        (_blank, "does not begin with"),
    ],
)
def test_a_corrupt_segment_is_named_with_the_nearest_restorable_time(
    past: Past, mutate: Callable[[Past, Path], None], cause: str
) -> None:
    mutate(past, past.archived(1))
    child = new_server(past.backend.instances)
    source = Source(past.parent, paused=True, snapshot_id=past.snapshot_id, target=past.restore_times[2])
    with pytest.raises(Failed, match=cause) as caught:
        past.backend.restore.capture(child, source)
    assert past.segments[1].name in caught.value.message
    assert not paths_of(past.backend, child).data.exists()
    nearest = parse_target_time(caught.value.details.rstrip(".").split()[-1])
    assert past.fork_of(nearest) == [0]


def test_the_nearest_restorable_time_may_be_a_later_snapshot(backend: LocalBackend, parent: Server) -> None:
    past = Past(backend, parent)
    run(backend, parent)
    later_id, later = snapshot(backend, parent)
    past.archived(1).unlink()
    with pytest.raises(Failed) as caught:
        fork(backend, parent, past.snapshot_id, past.restore_times[2])
    nearest = parse_target_time(caught.value.details.rstrip(".").split()[-1])
    assert nearest == later.taken_at
    assert rows_of(backend, fork(backend, parent, later_id, nearest).server) == [0, 1, 10, 11, 20, 21, 30, 31]


def test_a_flipped_bit_in_a_record_is_found_by_recovery(past: Past) -> None:
    _flip(past.archived(1), 0x100)
    with pytest.raises(Failed, match="is damaged at") as caught:
        past.fork_of(past.restore_times[2])
    assert past.segments[1].name in caught.value.message
    nearest = parse_target_time(caught.value.details.rstrip(".").split()[-1])
    assert past.fork_of(nearest) in ([0], [0, 1])


def test_a_flipped_bit_in_a_page_header_is_found_before_recovery(past: Past) -> None:
    _flip(past.archived(1), 8)
    with pytest.raises(Failed, match="contains the WAL from"):
        past.fork_of(past.restore_times[2])


def test_corruption_after_the_target_does_no_harm(past: Past) -> None:
    past.archived(2).unlink()
    _flip(past.archived(3), 0x100)
    assert past.fork_of(past.restore_times[0]) == [0, 1]


def test_a_flipped_bit_in_the_wal_of_a_snapshot_is_found(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    (segment,) = segments_in(snapshots.data_of(paths_of(backend, parent), snapshot_id) / "pg_wal")
    _flip(snapshots.data_of(paths_of(backend, parent), snapshot_id) / "pg_wal" / segment.name, 0xA8)
    with pytest.raises(Failed, match="is damaged at") as caught:
        fork(backend, parent, snapshot_id)
    assert segment.name in caught.value.message


def test_a_missing_segment_of_a_snapshot_is_found(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    wal = snapshots.data_of(paths_of(backend, parent), snapshot_id) / "pg_wal"
    (segment,) = segments_in(wal)
    (wal / segment.name).unlink()
    with pytest.raises(Failed, match=f"{segment.name} is missing"):
        fork(backend, parent, snapshot_id)


def test_a_copy_without_its_backup_label_is_found(backend: LocalBackend, parent: Server) -> None:
    """Its data files are older than its control file: it starts without a complaint, and is wrong."""
    snapshot_id, _ = snapshot(backend, parent)
    (snapshots.data_of(paths_of(backend, parent), snapshot_id) / "backup_label").unlink()
    with pytest.raises(Failed, match="no backup_label"):
        fork(backend, parent, snapshot_id)


def test_a_naive_copy_of_a_running_server_is_found(backend: LocalBackend, parent: Server) -> None:
    """Data files first, control file and WAL later: the classic mistake."""
    snapshot_id, _ = snapshot(backend, parent)
    paths = paths_of(backend, parent)
    tree = snapshots.data_of(paths, snapshot_id)
    backend.pool.driver.remove_tree(tree)
    backend.pool.driver.clone_tree(paths.data, tree, NOT_DATA)
    append(backend, parent, 1)
    with connections.connect(paths) as connection:
        connection.execute("CHECKPOINT")
    for name in ("global/pg_control", *(f"pg_wal/{one.name}" for one in segments_in(paths.data / "pg_wal"))):
        (tree / name).unlink(missing_ok=True)
        backend.pool.driver.clone_file(paths.data / name, tree / name)
    with pytest.raises(Failed, match="are not consistent"):
        fork(backend, parent, snapshot_id)


def test_wal_that_ends_before_the_backup_did_is_found(backend: LocalBackend, parent: Server) -> None:
    """The WAL was taken before the backup ended: a file of the right name without the end."""
    snapshot_id, _ = snapshot(backend, parent)
    wal = snapshots.data_of(paths_of(backend, parent), snapshot_id) / "pg_wal"
    (segment,) = segments_in(wal)
    overwrite(wal / segment.name, 0xD0, bytes(8192 - 0xD0))
    with pytest.raises(Failed, match="damaged at"):
        fork(backend, parent, snapshot_id)


def test_recovery_to_another_target_is_not_accepted(past: Past) -> None:
    child = new_server(past.backend.instances)
    source = Source(past.parent, paused=True, snapshot_id=past.snapshot_id, target=past.restore_times[2])
    captured = past.backend.restore.capture(child, source)
    assert captured is not None
    assert recover(past.backend, child, captured)["last_commit_time"] is not None
    wanted = captured.facts[RECOVER_TO_LSN]
    for elsewhere in (shown_lsn(lsn_number(wanted) - 8), shown_lsn(lsn_number(wanted) + 8), None):
        other = type(captured)(past.restore_times[2], {**captured.facts, RECOVER_TO_LSN: elsewhere})
        with pytest.raises(Failed, match="did not stop at the recovery target"):
            recover(past.backend, child, other)


def test_recovery_to_another_transaction_is_not_accepted(past: Past) -> None:
    child = new_server(past.backend.instances)
    source = Source(past.parent, paused=True, snapshot_id=past.snapshot_id, target=past.restore_times[2])
    captured = past.backend.restore.capture(child, source)
    assert captured is not None
    included = {**captured.facts["cut"]["last_included"], "time": rfc3339(past.restore_times[1])}
    other = type(captured)(
        past.restore_times[2], {**captured.facts, "cut": {**captured.facts["cut"], "last_included": included}}
    )
    with pytest.raises(Failed, match="did not stop at the recovery target"):
        recover(past.backend, child, other)


def test_a_fork_that_fell_short_of_its_base_is_not_accepted(backend: LocalBackend, parent: Server) -> None:
    child = new_server(backend.instances)
    captured = backend.restore.capture(child, Source(parent))
    assert captured is not None
    further = type(captured)(None, {**captured.facts, "end_lsn": "F/0"})
    with pytest.raises(Failed, match="did not stop at the recovery target"):
        recover(backend, child, further)


def test_the_error_for_a_lost_archive_names_the_remedy(past: Past) -> None:
    for path in list(past.paths.archive.iterdir()):
        path.unlink()
    files.write(past.paths.archive / "00000002.history")
    with pytest.raises(Failed, match="is missing") as caught:
        past.fork_of(past.restore_times[0])
    assert caught.value.details == "Use fork_strategy NOW."
    stopped_at = now()
    eventually(lambda: now() > stopped_at + timedelta(seconds=1))  # a control file's time is cut to seconds
    assert past.fork_of(now()) == [0, 1, 10, 11, 20, 21, 30, 31]


def _flip(path: Path, offset: int) -> None:
    byte = path.read_bytes()[offset]
    overwrite(path, offset, bytes([byte ^ 0x10]))
    eventually(lambda: path.read_bytes()[offset] != byte)
