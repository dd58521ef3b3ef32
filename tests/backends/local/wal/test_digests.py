"""Archived segments are what was archived, or are found and named."""

import errno
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, SnapshotFacts
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import value
from ramet.backends.local.wal import digests
from ramet.backends.local.wal.segment import SEGMENT_BYTES, UNREADABLE, Segment
from ramet.errors import Failed
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.model.timestamps import rfc3339
from tests.backends.local.forks import append, fork, paths_of, rows_of, snapshot
from tests.backends.local.segments import (
    DISK_FAULTS,
    bytes_on_disk,
    make_unreadable,
    overwrite,
    refuse_removal,
    write_segment,
)

LONG = 60.0
# Behind the header of a page in the middle: no check of headers sees it.
MIDDLE = 2 * 8192 + 4000


@pytest.fixture
def paths(tmp_path: Path) -> ServicePaths:
    made = ServicePaths(tmp_path / "service", tmp_path / "sockets")
    made.archive.mkdir(parents=True)
    for number in (3, 4, 5):
        write_segment(made.archive, Segment(1, number))
    return made


def test_the_checksum_of_each_segment_is_recorded_once(paths: ServicePaths) -> None:
    assert digests.record(paths, LONG) == 3
    assert digests.record(paths, LONG) == 0
    assert sorted(digests.digests(paths)) == [Segment(1, number).name for number in (3, 4, 5)]


def test_the_blank_end_of_a_recorded_segment_takes_no_blocks_and_is_not_damage(paths: ServicePaths) -> None:
    path = paths.archive / Segment(1, 3).name
    path.write_bytes(path.read_bytes())  # its blank end is written, as by PostgreSQL
    digests.record(paths, LONG)
    assert bytes_on_disk(path) < SEGMENT_BYTES // 8
    assert digests.verify(paths, "", LONG) is None
    assert digests.faults(paths) == {}


def test_the_checksums_of_removed_segments_are_dropped(backend: LocalBackend) -> None:
    paths = backend.instances.paths("trimmed000")
    paths.archive.mkdir(parents=True)
    for number in (3, 4, 5):
        write_segment(paths.archive, Segment(1, number))
    digests.record(paths, LONG)
    facts = SnapshotFacts(datetime.now(UTC), "0/4000000", "0/4000000", 1, 700, 0)
    assert backend.restore.discard_wal(paths.service_id, facts) == 1
    digests.record(paths, LONG)
    assert sorted(digests.digests(paths)) == [Segment(1, number).name for number in (4, 5)]


def test_a_segment_that_vanished_and_came_back_altered_is_found(paths: ServicePaths) -> None:
    digests.record(paths, LONG)
    path = paths.archive / Segment(1, 3).name
    whole = path.read_bytes()
    path.unlink()
    digests.record(paths, LONG)
    path.write_bytes(whole)
    overwrite(path, MIDDLE, b"altered")
    digests.record(paths, LONG)
    assert digests.verify(paths, "", LONG) is None
    assert digests.faults(paths) == {path.name: digests.ALTERED}


def test_an_altered_segment_is_found_by_a_verification_in_several_parts(paths: ServicePaths) -> None:
    digests.record(paths, LONG)
    overwrite(paths.archive / Segment(1, 4).name, MIDDLE, b"altered")
    at: str | None = ""
    while at is not None:
        at = digests.verify(paths, at, 0.0)
    assert digests.faults(paths) == {Segment(1, 4).name: digests.ALTERED}


def test_a_repaired_segment_is_no_longer_reported(paths: ServicePaths) -> None:
    digests.record(paths, LONG)
    path = paths.archive / Segment(1, 4).name
    whole = path.read_bytes()
    overwrite(path, MIDDLE, b"altered")
    digests.verify(paths, "", LONG)
    path.write_bytes(whole)
    digests.verify(paths, "", LONG)
    assert digests.faults(paths) == {}


@pytest.mark.parametrize("number", DISK_FAULTS)
def test_a_segment_that_the_disk_cannot_read_keeps_no_other_from_its_checksum(
    paths: ServicePaths, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    victim = paths.archive / Segment(1, 4).name
    make_unreadable(monkeypatch, victim, number)
    assert digests.record(paths, LONG) == 2
    assert victim.name not in digests.digests(paths)


@pytest.mark.parametrize("number", DISK_FAULTS)
@pytest.mark.parametrize("had_checksum", [True, False])
def test_a_segment_that_the_disk_cannot_read_is_damaged(
    paths: ServicePaths, monkeypatch: pytest.MonkeyPatch, number: int, had_checksum: bool
) -> None:
    victim = paths.archive / Segment(1, 4).name
    if had_checksum:
        digests.record(paths, LONG)
    make_unreadable(monkeypatch, victim, number)
    digests.record(paths, LONG)
    assert digests.verify(paths, "", LONG) is None
    assert digests.faults(paths) == {victim.name: UNREADABLE}


@pytest.mark.parametrize("number", DISK_FAULTS)
def test_a_segment_that_no_restore_needs_and_the_disk_keeps_is_not_damage(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    paths = backend.instances.paths(f"left{number:06}")
    paths.archive.mkdir(parents=True)
    segments = [write_segment(paths.archive, Segment(1, number)) for number in (3, 4, 5)]
    digests.record(paths, LONG)
    facts = SnapshotFacts(datetime.now(UTC), "0/4000000", "0/4000000", 1, 700, 0)
    with monkeypatch.context() as patched:
        make_unreadable(patched, segments[0], number)
        refuse_removal(patched, segments[0].name, number)
        assert backend.restore.discard_wal(paths.service_id, facts) == 0
        digests.record(paths, LONG)
        assert backend.restore.verify_archive(paths.service_id, "") is None
        make_unreadable(patched, segments[1], number)
        with pytest.raises(Failed, match=segments[1].name):
            backend.restore.verify_archive(paths.service_id, "")
    assert backend.restore.discard_wal(paths.service_id, facts) == 1
    assert digests.leftovers(paths) == frozenset()


@pytest.mark.parametrize("kept_bytes", [-2, -40])
def test_a_record_that_a_power_cut_tore_condemns_no_sound_segment(paths: ServicePaths, kept_bytes: int) -> None:
    digests.record(paths, LONG)
    file = paths.root / "archive.digests"
    file.write_bytes(file.read_bytes()[:kept_bytes])
    assert digests.record(paths, LONG) == 1
    assert digests.verify(paths, "", LONG) is None
    assert digests.faults(paths) == {}
    assert len(digests.digests(paths)) == 3


def test_checksums_are_on_disk_when_they_are_recorded_and_flushed_only_when_new(
    paths: ServicePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[Path] = []
    monkeypatch.setattr(files, "flush", flushed.append)
    for _ in range(2):
        digests.record(paths, LONG)
    digests.discard(paths, 1, "0/3000000")
    assert flushed == [paths.root]


def test_checksums_that_a_snapshot_drops_during_a_record_do_not_come_back(
    paths: ServicePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests.record(paths, LONG)
    write_segment(paths.archive, Segment(1, 6))
    read, dropping = digests.digest_of, threading.Thread(target=digests.discard, args=(paths, 1, "0/5000000"))

    def digest_of(path: Path) -> str:
        dropping.start()
        dropping.join(0.2)
        return read(path)

    monkeypatch.setattr(digests, "digest_of", digest_of)
    assert digests.record(paths, LONG) == 1
    dropping.join(LONG)
    assert sorted(digests.digests(paths)) == [Segment(1, number).name for number in (5, 6)]


def test_checksums_are_dropped_up_to_an_lsn_on_a_timeline_and_those_before_it(paths: ServicePaths) -> None:
    for number in (3, 4):
        write_segment(paths.archive, Segment(2, number))
    digests.record(paths, LONG)
    digests.discard(paths, 1, "0/5000000")
    assert sorted(digests.digests(paths)) == [Segment(1, 5).name, Segment(2, 3).name, Segment(2, 4).name]
    digests.discard(paths, 2, "0/4000000")
    assert set(digests.recorded_files(paths)) == {paths.archive / Segment(2, 4).name}


def test_the_check_passes_until_a_verification_finds_an_altered_segment(paths: ServicePaths) -> None:
    digests.record(paths, LONG)
    digests.check(paths)
    overwrite(paths.archive / Segment(1, 4).name, MIDDLE, b"altered")
    digests.verify(paths, "", LONG)
    with pytest.raises(Failed, match=f"{Segment(1, 4).name} in the archive of service service was altered after"):
        digests.check(paths)


def _archived(backend: LocalBackend, parent: Server) -> list[Path]:
    """Make the server archive and remove all that it has written, and return the archived segments in order."""
    paths = paths_of(backend, parent)
    with connections.connect(paths) as connection:
        last = value(connection, "SELECT pg_walfile_name(pg_switch_wal())")
        eventually((paths.archive / last).exists)
        connection.execute("CHECKPOINT")
    return sorted(path for path in paths.archive.iterdir() if len(path.name) == 24)


@pytest.mark.parametrize("fault", [digests.ALTERED, UNREADABLE])
def test_a_damaged_segment_fails_the_fork_and_is_a_gap_of_the_window(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    first, facts = snapshot(backend, parent)
    append(backend, parent, 1)
    _archived(backend, parent)
    append(backend, parent, 2)
    victim = _archived(backend, parent)[-1]
    restore_time = append(backend, parent, 3)[0]
    second, later = snapshot(backend, parent)
    paths = paths_of(backend, parent)
    (paths.data / "pg_wal" / victim.name).unlink(missing_ok=True)
    if fault == UNREADABLE:
        make_unreadable(monkeypatch, victim, errno.EUCLEAN)
    digests.record(paths, LONG)
    if fault == digests.ALTERED:
        overwrite(victim, 9 * 1024 * 1024 + MIDDLE, b"x")
    with pytest.raises(Failed, match=f"{victim.name} {fault}") as failed:
        fork(backend, parent, first, restore_time)
    assert rfc3339(later.taken_at) in failed.value.details
    digests.verify(paths, "", LONG)
    known = [
        Snapshot(
            name, parent.service_id, SnapshotKind.SCHEDULED, one.taken_at, one.start_lsn, one.end_lsn, one.timeline,
            one.next_xid, one.size_bytes,
        )
        for name, one in ((first, facts), (second, later))
    ]  # fmt: skip
    (gap,) = backend.restore.gaps(parent.service_id, known)
    assert gap.reason == f"WAL segment {victim.name} {fault}"
    assert gap.ends_at == later.taken_at
    assert facts.taken_at <= gap.begins_at < restore_time
    before = fork(backend, parent, first, gap.begins_at)
    after = fork(backend, parent, second, later.taken_at + timedelta(microseconds=1))
    assert 3 not in rows_of(backend, before.server)
    assert rows_of(backend, after.server) == [1, 2, 3]


def test_a_missing_segment_is_a_gap_and_both_its_ends_can_be_restored(backend: LocalBackend, parent: Server) -> None:
    first, facts = snapshot(backend, parent)
    append(backend, parent, 1)
    _archived(backend, parent)
    append(backend, parent, 2)
    victim = _archived(backend, parent)[-1]
    append(backend, parent, 3)
    second, later = snapshot(backend, parent)
    paths = paths_of(backend, parent)
    victim.unlink()
    (paths.data / "pg_wal" / victim.name).unlink(missing_ok=True)
    known = [
        Snapshot(
            name, parent.service_id, SnapshotKind.SCHEDULED, one.taken_at, one.start_lsn, one.end_lsn, one.timeline,
            one.next_xid, one.size_bytes,
        )
        for name, one in ((first, facts), (second, later))
    ]  # fmt: skip
    (gap,) = backend.restore.gaps(parent.service_id, known)
    assert gap.reason == f"WAL segment {victim.name} is missing"
    assert gap.ends_at == later.taken_at
    before = fork(backend, parent, first, gap.begins_at)
    after = fork(backend, parent, second, later.taken_at + timedelta(microseconds=1))
    assert 2 not in rows_of(backend, before.server)
    assert rows_of(backend, after.server) == [1, 2, 3]


def test_a_whole_archive_has_no_gap(backend: LocalBackend, parent: Server) -> None:
    first, facts = snapshot(backend, parent)
    append(backend, parent, 1)
    _archived(backend, parent)
    known = [
        Snapshot(
            first, parent.service_id, SnapshotKind.INITIAL, facts.taken_at, facts.start_lsn, facts.end_lsn,
            facts.timeline, facts.next_xid, facts.size_bytes,
        )
    ]  # fmt: skip
    assert backend.restore.gaps(parent.service_id, known) == []
