"""Forks of what an S3 server holds of a service: whole, to a past time, after a kill, and out of a damaged archive."""

import errno
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.archive import layout
from ramet.archive.base_backups import BaseBackups, Checksum
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.backends.interface.inventory import Kind
from ramet.backends.interface.values import BaseBackup, Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.inventory import LocalInventory
from ramet.backends.local.off_host import archive as off_host
from ramet.backends.local.off_host import download
from ramet.backends.local.off_host.archive import LocalArchive
from ramet.backends.local.off_host.progress import BaseProgress, write_progress
from ramet.backends.local.restore import fetched
from ramet.errors import Failed, Unavailable
from tests.backends.local.forks import Forked, append, committed_until, now, paths_of, rows_of, run_fork, snapshot
from tests.backends.local.hosts import new_server
from tests.backends.local.off_host.test_archive import archived, maintain, switch

MICROSECOND = timedelta(microseconds=1)


@pytest.fixture
def archive(backend: LocalBackend, bucket: Bucket) -> LocalArchive:
    return LocalArchive(backend.instances, backend.pool, bucket, "this-installation")


def based(backend: LocalBackend, archive: LocalArchive, parent: Server) -> BaseBackup:
    """Bring a base backup of a service into the archive."""
    snapshot(backend, parent)
    archived(archive, parent)
    return archive.holdings(parent).base_backups[-1]


def ship(backend: LocalBackend, archive: LocalArchive, parent: Server) -> None:
    """Bring all that was committed into the archive."""
    switch(backend, parent)
    maintain(archive, parent)


def fetch(archive: LocalArchive, child: Server, source: Source) -> None:
    eventually(lambda: archive.fetch(child, source, 0.5) is None)


def forked_from(backend: LocalBackend, archive: LocalArchive, source: Source) -> Forked:
    """Fork a service from the archive, up to the proof of its stop point."""
    child = new_server(backend.instances)
    fetch(archive, child, source)
    captured = backend.restore.capture(child, source)
    assert captured is not None
    assert child.service_id not in fetched.children_with_downloads(backend.instances.layout)
    return Forked(child, captured, run_fork(backend, child, captured))


def test_a_fork_from_the_archive_has_every_row_of_a_parent_that_is_gone(
    backend: LocalBackend, parent: Server, archive: LocalArchive
) -> None:
    append(backend, parent, 1, 2)
    base = based(backend, archive, parent)
    append(backend, parent, 3)
    ship(backend, archive, parent)
    append(backend, parent, 4)
    ship(backend, archive, parent)
    expected = rows_of(backend, parent)
    backend.servers.destroy(parent.service_id)
    forked = forked_from(backend, archive, Source(parent, base_backup_id=base.id))
    assert rows_of(backend, forked.server) == expected == [1, 2, 3, 4]
    download_report = forked.capture.facts["archive"]
    assert download_report["base_backup"] == base.id
    assert (
        download_report["downloaded_bytes"]
        == base.download_bytes + archive.holdings(parent).base_backups[0].wal_download_bytes
    )


@pytest.mark.parametrize("offset", [-MICROSECOND, timedelta(0), MICROSECOND], ids=["before", "at", "after"])
def test_a_fork_of_a_past_time_is_exact_to_the_microsecond(
    backend: LocalBackend, parent: Server, archive: LocalArchive, offset: timedelta
) -> None:
    append(backend, parent, 1)
    base = based(backend, archive, parent)
    target = append(backend, parent, 2, 3, 4)[1] + offset
    expected = committed_until(backend, parent, target)
    ship(backend, archive, parent)
    forked = forked_from(backend, archive, Source(parent, target=target, base_backup_id=base.id))
    assert rows_of(backend, forked.server) == expected
    assert forked.capture.facts["cut"]["first_excluded"] is not None


def test_a_paused_parent_is_forked_from_its_last_state(
    backend: LocalBackend, parent: Server, archive: LocalArchive
) -> None:
    append(backend, parent, 1)
    backend.servers.stop(parent)
    snapshot(backend, parent, paused=True)
    eventually(lambda: maintain(archive, parent, paused=True).archived_until is not None)
    (base,) = archive.holdings(parent).base_backups
    forked = forked_from(backend, archive, Source(parent, base_backup_id=base.id))
    assert rows_of(backend, forked.server) == [1]


def test_the_newest_base_backup_that_was_complete_is_chosen(
    backend: LocalBackend, parent: Server, archive: LocalArchive
) -> None:
    append(backend, parent, 1)
    first = based(backend, archive, parent)
    between = now()
    append(backend, parent, 2)
    write_progress(paths_of(backend, parent), BaseProgress())
    snapshot(backend, parent)

    def has_both() -> bool:
        maintain(archive, parent)
        return len(archive.holdings(parent).base_backups) == 2

    eventually(has_both)
    held = archive.holdings(parent)
    assert held.base_for(between) == held.base_backups[0]
    assert held.base_for(None) == held.base_backups[1]
    assert held.base_for(first.taken_at - MICROSECOND) is None
    assert all(base.download_bytes > 0 for base in held.base_backups)


def test_wal_is_not_read_far_beyond_the_target(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_CLOCK_STEP", timedelta(0))
    monkeypatch.setattr(download, "_SEGMENTS_A_LOOK", 1)
    base = based(backend, archive, parent)
    target = append(backend, parent, 1)[0]
    for number in (2, 3, 4, 5):
        append(backend, parent, number)
        ship(backend, archive, parent)
    child, source = new_server(backend.instances), Source(parent, target=target, base_backup_id=base.id)
    fetch(archive, child, source)
    place = fetched.place_of(backend.instances.layout, child.service_id, parent.service_id)
    there = {path.name for path in place.parent.archive.iterdir()}
    assert len(there) < len(WalArchive(bucket, parent.service_id).names()) - 1


def test_a_download_that_was_killed_continues_with_the_next_part(
    backend: LocalBackend, parent: Server, archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(backend, parent, 1)
    monkeypatch.setattr(off_host, "BaseBackups", functools.partial(BaseBackups, part_bytes=4_000_000))
    base = based(backend, archive, parent)
    unpacked, killed = list[int](), threading.Event()
    unpack = BaseBackups.unpack

    def counted(self: BaseBackups, backup_id: str, number: int, checksum: Checksum, tree: Path, *rest: object) -> None:
        if number == 2 and not killed.is_set():
            killed.set()
            raise KeyboardInterrupt
        unpacked.append(number)
        unpack(self, backup_id, number, checksum, tree, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(BaseBackups, "unpack", counted)
    monkeypatch.setattr(threading, "excepthook", lambda _arguments: None)
    child, source = new_server(backend.instances), Source(parent, base_backup_id=base.id)
    archive.fetch(child, source, 0.1)  # asked again after the kill, it would continue
    eventually(killed.is_set)
    assert unpacked == [0, 1]
    later = LocalArchive(backend.instances, backend.pool, archive.bucket, "this-installation")
    fetch(later, child, source)
    assert unpacked == list(range(len(unpacked)))
    captured = backend.restore.capture(child, source)
    run_fork(backend, child, captured)
    assert rows_of(backend, child) == [1]


def test_an_altered_segment_is_named(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    base = based(backend, archive, parent)
    append(backend, parent, 1)
    ship(backend, archive, parent)
    name = max(name for name in WalArchive(bucket, parent.service_id).names() if not name.endswith(".history"))
    key = layout.wal_key(parent.service_id, name)
    altered = bytearray(bucket.read(key) or b"")
    altered[-8] ^= 1  # of the checksum: a byte further in may stand for a repetition of zeros, whatever its value
    bucket.write(key, bytes(altered))
    with pytest.raises(Failed, match=name):
        fetch(archive, new_server(backend.instances), Source(parent, base_backup_id=base.id))


def test_a_segment_of_another_cluster_is_named(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    base = based(backend, archive, parent)
    wal = WalArchive(bucket, parent.service_id)
    first = min(wal.names())
    append(backend, parent, 1)
    ship(backend, archive, parent)
    bucket.write(
        layout.wal_key(parent.service_id, max(wal.names())),
        bucket.read(layout.wal_key(parent.service_id, first)) or b"",
    )
    with pytest.raises(Failed, match="contains the WAL from"):
        fetch(archive, new_server(backend.instances), Source(parent, base_backup_id=base.id))


def test_a_missing_segment_is_named_unless_the_target_is_before_it(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    base = based(backend, archive, parent)
    target = append(backend, parent, 1, 2)[0]
    ship(backend, archive, parent)
    wal = WalArchive(bucket, parent.service_id)
    missing = max(wal.names())
    for number in (3, 4):
        append(backend, parent, number)
        ship(backend, archive, parent)
        missing = min(name for name in wal.names() if name > missing) if number == 3 else missing
    bucket.delete([layout.wal_key(parent.service_id, missing)])
    with pytest.raises(Failed, match=f"WAL segment {missing} is missing"):
        forked_from(backend, archive, Source(parent, base_backup_id=base.id))
    forked = forked_from(backend, archive, Source(parent, target=target, base_backup_id=base.id))
    assert rows_of(backend, forked.server) == [1]


def test_a_download_without_room_says_so(
    backend: LocalBackend, parent: Server, archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = based(backend, archive, parent)
    monkeypatch.setattr(type(backend.pool), "free_bytes", lambda _pool: 1024)
    with pytest.raises(Failed, match="The storage has 0 MiB left"):
        fetch(archive, new_server(backend.instances), Source(parent, base_backup_id=base.id))


def test_a_download_that_would_have_to_be_stopped_is_not_begun(
    backend: LocalBackend, parent: Server, archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = based(backend, archive, parent)
    pool, limit_bytes, begun = type(backend.pool), 2 * 1024**3, list[str]()
    monkeypatch.setattr(pool, "total_bytes", lambda _pool: 20 * limit_bytes)
    monkeypatch.setattr(pool, "free_bytes", lambda _pool: limit_bytes)
    monkeypatch.setattr(download.Download, "_unpack", lambda *_arguments: begun.append("parts"))
    with pytest.raises(Failed, match="The storage has 2048 MiB left, and this needs"):
        fetch(archive, new_server(backend.instances), Source(parent, base_backup_id=base.id))
    assert begun == []


def test_a_download_is_stopped_before_it_takes_the_space_that_others_need(
    backend: LocalBackend, parent: Server, archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = based(backend, archive, parent)
    unpack = download.Download._unpack

    def filled(self: download.Download, *arguments: object) -> None:
        monkeypatch.setattr(type(backend.pool), "free_bytes", lambda _pool: 1024)
        unpack(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(download.Download, "_unpack", filled)
    monkeypatch.setattr(download, "_RECORD_EVERY_SECONDS", -1.0)
    with pytest.raises(Failed, match="so the download was stopped") as caught:
        fetch(archive, new_server(backend.instances), Source(parent, base_backup_id=base.id))
    assert caught.value.details.endswith("; then try again.")


def test_a_download_that_cannot_be_recorded_on_a_full_storage_says_so(
    backend: LocalBackend, parent: Server, archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = based(backend, archive, parent)
    child, source = new_server(backend.instances), Source(parent, base_backup_id=base.id)

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(fetched.Place, "write", full)
        for _ in range(2):
            with pytest.raises(Failed, match="No space left on device"):
                archive.fetch(child, source, 60)
    backend.servers.destroy(child.service_id)
    fetch(archive, child, source)


def test_an_archive_that_is_away_shows_in_the_progress_and_the_download_continues(
    backend: LocalBackend, parent: Server, archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(backend, parent, 1)
    base = based(backend, archive, parent)
    child, source = new_server(backend.instances), Source(parent, base_backup_id=base.id)

    def away(*_arguments: object) -> Iterator[bytes]:
        raise Unavailable("ARCHIVE_UNAVAILABLE", "The archive does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(Bucket, "stream", away)
        eventually(lambda: "does not answer" in (archive.fetch(child, source, 0.1) or ""))
    fetch(archive, child, source)


@contextmanager
def held_download(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold downloads at the first piece of a base backup; yield what is set when one is there."""
    reached, go_on = threading.Event(), threading.Event()
    count = download.Download._count

    def held(self: download.Download, size_bytes: int) -> None:
        reached.set()
        go_on.wait(60)
        count(self, size_bytes)

    monkeypatch.setattr(download.Download, "_count", held)
    try:
        yield reached
    finally:
        go_on.set()


def test_a_download_under_way_is_found_and_ends_with_its_fork(
    backend: LocalBackend, parent: Server, archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = based(backend, archive, parent)
    child, source = new_server(backend.instances), Source(parent, base_backup_id=base.id)
    monkeypatch.setattr(fetched, "_END_WITHIN_SECONDS", 0.0)
    with held_download(monkeypatch) as reached:
        assert archive.fetch(child, source, 0.1) is not None
        assert reached.wait(60)
        (found,) = [one for one in LocalInventory(backend).resources() if one.kind is Kind.DOWNLOAD]
        assert found.service_id == child.service_id
        with pytest.raises(Unavailable, match="has not ended"):
            backend.servers.destroy(child.service_id)
    monkeypatch.undo()
    LocalInventory(backend).discard(found)
    backend.servers.destroy(child.service_id)
    assert not [one for one in LocalInventory(backend).resources() if one.service_id == child.service_id]


def test_a_time_between_two_timelines_is_refused(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    base = based(backend, archive, parent)
    append(backend, parent, 1)
    ship(backend, archive, parent)
    wal = WalArchive(bucket, parent.service_id)
    later = max(wal.names()).replace("00000001", "00000002", 1)
    bucket.write(layout.wal_key(parent.service_id, later), b"of another timeline")
    target: datetime = now()
    with pytest.raises(Failed, match="begins again later"):
        forked_from(backend, archive, Source(parent, target=target, base_backup_id=base.id))
    to_the_end = forked_from(backend, archive, Source(parent, base_backup_id=base.id))
    assert rows_of(backend, to_the_end.server) == [1]
