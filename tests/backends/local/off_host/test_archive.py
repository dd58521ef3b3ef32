"""Real servers whose WAL and base backups go to an S3 server, and are restored from there by Barman's own programs."""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from harness.barman import Barman, restored
from harness.waiting import BOUND_SECONDS, eventually
from ramet.archive import layout, owner
from ramet.archive.backup_info import BackupInfo
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.backends.interface.archive import ArchiveState
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.off_host.archive import LocalArchive
from ramet.backends.local.off_host.progress import BaseProgress, Hole, WalProgress, read_progress, write_progress
from ramet.backends.local.sql import connections
from ramet.backends.local.wal.segment import Segment
from ramet.errors import Failed
from ramet.model.timestamps import rfc3339
from tests.backends.local.forks import append, fork, paths_of, rows_of, snapshot
from tests.backends.local.hosts import new_server


@pytest.fixture
def archive(backend: LocalBackend, bucket: Bucket) -> LocalArchive:
    return LocalArchive(backend.instances, backend.pool, bucket, "this-installation")


def switch(backend: LocalBackend, server: Server) -> None:
    """Close the current segment, and wait until it is in the local archive."""
    with connections.connect(paths_of(backend, server)) as connection:
        connection.execute("SELECT pg_switch_wal()")
        query = "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'"
        eventually(lambda: connection.execute(query).fetchone() == (0,))


def maintain(archive: LocalArchive, server: Server, *, paused: bool = False) -> ArchiveState:
    state = archive.maintain(server, paused=paused, timeout_seconds=60)
    assert (state.problem or "").partition(" of service")[0] in (
        "",
        f"The archive {archive.url()} has no complete base backup",
    )
    return state


def archived(archive: LocalArchive, server: Server) -> ArchiveState:
    """Maintain the archive until it has a base backup and all that is committed."""
    reached = list[ArchiveState]()

    def is_archived() -> bool:
        reached.append(maintain(archive, server))
        return reached[-1].archived_until is not None

    eventually(is_archived, pause_seconds=0.05)
    return reached[-1]


@contextmanager
def restored_by_barman(
    backend: LocalBackend, server: Server, bucket: Bucket, backup_id: str = "latest", **settings: str
) -> Iterator[Callable[[], list[int]]]:
    """Restore a service with Barman's programs alone; the block gets a function that queries its ledger."""
    account, installation = backend.instances.account, backend.instances.installations.of(server.pg_major)
    names = sorted(WalArchive(bucket, server.service_id).names())
    barman = Barman(bucket.url, server.service_id, os.environ)
    root = backend.pool.root / f"barman-{server.service_id}"
    with restored(barman, root, names, installation, account, backup_id, **settings):

        def rows() -> list[int]:
            # Empty until the recovery is over.
            psql = [installation.program("psql"), "-h", root, "-U", "ramet", "-d", "postgres", "-Atc"]
            query = [*psql, "SELECT n FROM public.ledger ORDER BY n"]
            identity = {"env": dict(os.environ), **account.identity()}
            done = subprocess.run(query, check=False, timeout=250, capture_output=True, text=True, cwd="/", **identity)  # type: ignore[call-overload]
            return [int(line) for line in done.stdout.split()]

        yield rows


def test_barman_restores_every_row_that_was_archived(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    append(backend, parent, 1, 2)
    snapshot(backend, parent)
    append(backend, parent, 3)
    switch(backend, parent)
    until = archived(archive, parent).archived_until
    append(backend, parent, 4)
    before = append(backend, parent, 5)[0]
    maintain(archive, parent)
    switch(backend, parent)
    eventually(lambda: (maintain(archive, parent).archived_until or before) > before)
    assert until is not None
    with restored_by_barman(backend, parent, bucket) as rows:
        eventually(lambda: rows() == rows_of(backend, parent) == [1, 2, 3, 4, 5])


def test_rows_of_a_fork_are_restored_on_its_own_timeline(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    append(backend, parent, 1)
    child = fork(backend, parent).server
    backend.servers.secure(child, is_new=False, neutralize=False)
    append(backend, child, 2)
    snapshot(backend, child)
    archived(archive, child)
    append(backend, child, 3)
    maintain(archive, child)
    switch(backend, child)
    maintain(archive, child)
    with restored_by_barman(backend, child, bucket) as rows:
        eventually(lambda: rows() == [1, 2, 3])


def lose_segment(backend: LocalBackend, server: Server, sent: set[str]) -> Path:
    """Write two segments, and remove the first of them from the local archive before it is sent; return it."""
    for number in (1, 2):
        append(backend, server, number)
        switch(backend, server)
    new = sorted(path for path in paths_of(backend, server).archive.iterdir() if path.name not in sent)
    missing = next(path for path in new if layout.is_wal_file(path.name))
    missing.unlink()
    return missing


def test_after_a_lost_segment_the_archive_continues_with_a_new_base_backup(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    snapshot(backend, parent)
    before = archived(archive, parent).archived_until
    missing = lose_segment(backend, parent, WalArchive(bucket, parent.service_id).names())
    backups = BaseBackups(bucket, parent.service_id)
    for _ in range(3):
        state = archive.maintain(parent, paused=False, timeout_seconds=60)
        assert f"WAL segment {missing.name} is missing" in (state.problem or "")
        assert state.archived_until == before
    assert len(backups.complete()) == 1  # the snapshot from before the loss is of no use
    snapshot(backend, parent)
    append(backend, parent, 3)
    switch(backend, parent)
    reached = list[ArchiveState]()

    def is_restorable() -> bool:
        reached.append(archive.maintain(parent, paused=False, timeout_seconds=60))
        return reached[-1].archived_until != before

    eventually(is_restorable)
    assert reached[-1].archived_until is not None
    assert before is not None
    assert reached[-1].archived_until > before
    first, second = backups.complete()
    assert f"WAL segment {missing.name} was lost" in (reached[-1].problem or "")
    assert rfc3339(before) in (reached[-1].problem or "")
    assert rfc3339(second.end_time) in (reached[-1].problem or "")
    assert [(gap.begins_at, gap.ends_at) for gap in reached[-1].gaps] == [(before, second.end_time)]
    with restored_by_barman(backend, parent, bucket) as rows:
        eventually(lambda: rows() == [1, 2, 3])
    archive.discard(parent, second.end_time + timedelta(microseconds=1))
    assert backups.complete() == [second]
    assert first != second
    assert maintain(archive, parent).problem is None


def test_a_segment_that_the_archiver_has_not_reached_is_waited_for(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    snapshot(backend, parent)
    archived(archive, parent)
    paths, sent = paths_of(backend, parent), WalArchive(bucket, parent.service_id).names()
    missing = lose_segment(backend, parent, sent)
    backend.servers.stop(parent)
    waiting = paths.data / "pg_wal" / "archive_status" / f"{missing.name}.ready"
    waiting.touch()
    maintain(archive, parent, paused=True)
    assert WalArchive(bucket, parent.service_id).names() == sent
    waiting.unlink()
    assert archive.maintain(parent, paused=True, timeout_seconds=60).problem is not None
    assert missing.name not in WalArchive(bucket, parent.service_id).names() > sent


def test_a_long_upload_does_not_hold_up_other_jobs(
    backend: LocalBackend, parent: Server, archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot(backend, parent)
    began, goes_on, usual = threading.Event(), threading.Event(), BaseBackups.upload

    def upload(backups: BaseBackups, info: BackupInfo, tree: Path) -> None:
        began.set()
        assert goes_on.wait(BOUND_SECONDS)
        usual(backups, info, tree)

    monkeypatch.setattr(BaseBackups, "upload", upload)
    maintain(archive, parent)
    assert began.wait(BOUND_SECONDS)
    jobs = replace(backend.instances, background_jobs=1).jobs
    assert jobs.run(paths_of(backend, parent), "analyze", lambda: "done", BOUND_SECONDS) == "done"
    goes_on.set()
    eventually(lambda: maintain(archive, parent).base_taken_at is not None)


def test_an_installation_that_was_replaced_sends_nothing_more(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    snapshot(backend, parent)
    owner.claim(bucket, "this-installation")
    owner.take_over(bucket, "another-installation")
    with pytest.raises(Failed, match="Nothing is written to it from here"):
        archive.maintain(parent, paused=False, timeout_seconds=60)
    assert list(bucket.objects(f"{parent.service_id}/")) == []


def test_nothing_is_removed_while_the_archive_is_still_asked_who_writes_to_it(
    backend: LocalBackend, archive: LocalArchive, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, claim, refused = new_server(backend.instances), owner.claim, list[str]()
    bucket.write(layout.end_key(server.service_id), b"")
    owner.take_over(bucket, "another-installation")

    def remove() -> None:
        with pytest.raises(Failed, match="Nothing is written to it from here"):
            archive.remove(server)
        refused.append(server.service_id)

    def slow(bucket: Bucket, installation: str) -> None:
        monkeypatch.setattr(owner, "claim", claim)
        remove()  # as another thread does
        claim(bucket, installation)

    monkeypatch.setattr(owner, "claim", slow)
    remove()
    assert len(refused) == 2
    assert bucket.read(layout.end_key(server.service_id)) is not None


def test_a_quiet_service_is_archived_up_to_now(backend: LocalBackend, parent: Server, archive: LocalArchive) -> None:
    append(backend, parent, 1)
    snapshot(backend, parent)
    archived(archive, parent)
    later = datetime.now(UTC)
    eventually(lambda: (maintain(archive, parent).archived_until or later) > later)


def test_a_paused_service_is_archived_to_its_end(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    append(backend, parent, 1)
    snapshot(backend, parent)
    before = archived(archive, parent).archived_until
    append(backend, parent, 2)
    assert maintain(archive, parent, paused=True).archived_until == before  # it was started just now
    backend.servers.stop(parent)
    later, data = datetime.now(UTC), paths_of(backend, parent).data
    left = data / "pg_wal" / "archive_status" / f"{Segment(1, 1000).name}.ready"
    left.touch()  # the archiver could not archive it, and the server has stopped
    for _ in range(3):
        assert (maintain(archive, parent, paused=True).archived_until or later) <= later
    left.unlink()
    eventually(lambda: (maintain(archive, parent, paused=True).archived_until or later) > later)
    with restored_by_barman(backend, parent, bucket) as rows:
        eventually(lambda: rows() == [1, 2])


def test_a_clean_up_reads_each_description_once(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(backend, parent, 1)
    snapshot(backend, parent)
    archived(archive, parent)
    (only,) = BaseBackups(bucket, parent.service_id).ids()
    read, usual = list[str](), BaseBackups.find

    def find(backups: BaseBackups, backup_id: str) -> BackupInfo | None:
        read.append(backup_id)
        return usual(backups, backup_id)

    monkeypatch.setattr(BaseBackups, "find", find)
    archive.discard(parent, datetime.now(UTC))
    assert read == [only]


def test_what_the_window_does_not_need_is_discarded(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    backups, wal = BaseBackups(bucket, parent.service_id), WalArchive(bucket, parent.service_id)
    append(backend, parent, 1)
    snapshot(backend, parent)
    archived(archive, parent)
    (first,) = backups.complete()
    append(backend, parent, 2)
    switch(backend, parent)
    snapshot(backend, parent)
    write_progress(paths_of(backend, parent), BaseProgress())

    def has_both() -> bool:
        maintain(archive, parent)
        return len(backups.complete()) == 2 and not archive.is_sending(parent)

    eventually(has_both)
    second = backups.complete()[1]
    given_up, damaged = "20200101T000000", "20990101T000000"
    for backup_id in (given_up, damaged):
        bucket.write(layout.part_key(parent.service_id, backup_id, 0), b"x")
    bucket.write(layout.info_key(parent.service_id, damaged), b"")
    write_progress(paths_of(backend, parent), BaseProgress(snapshot_id="under way"))
    archive.discard(parent, first.end_time + timedelta(microseconds=1))
    assert given_up in backups.ids()
    write_progress(paths_of(backend, parent), BaseProgress())
    archive.discard(parent, first.end_time + timedelta(microseconds=1))
    assert backups.complete() == [first, second]
    assert backups.ids() == [first.backup_id, second.backup_id, damaged]
    archive.discard(parent, second.end_time + timedelta(microseconds=1))
    assert backups.complete() == [second]
    assert min(wal.names()) >= second.begin_segment


def test_a_damaged_description_of_the_newest_base_backup_is_written_again(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    snapshot(backend, parent)
    archived(archive, parent)
    backups = BaseBackups(bucket, parent.service_id)
    (base,) = backups.complete()
    bucket.write(layout.info_key(parent.service_id, base.backup_id), b"")
    child, source = new_server(backend.instances), Source(parent, base_backup_id=base.backup_id)
    with pytest.raises(Failed, match=r"backup\.info .* is damaged"):
        eventually(lambda: archive.fetch(child, source, 0.5) is None)
    later = LocalArchive(backend.instances, backend.pool, bucket, "this-installation")
    state = later.maintain(parent, paused=False, timeout_seconds=60)
    assert f"has lost base backup {base.backup_id}" in (state.problem or "")
    archived(later, parent)
    assert backups.complete() == [base]


def test_an_archive_that_was_emptied_is_reported_and_filled_again(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    append(backend, parent, 1)
    snapshot(backend, parent)
    archived(archive, parent)
    backups = BaseBackups(bucket, parent.service_id)
    (lost,) = backups.complete()
    sent, paths = WalArchive(bucket, parent.service_id).names(), paths_of(backend, parent)
    hole = Hole(Segment(1, 1).name, Segment(1, 2).name, lost.end_time - timedelta(hours=1), lost.end_time)
    write_progress(paths, msgspec.structs.replace(read_progress(paths, WalProgress), holes=(hole,)))
    bucket.delete([found.key for found in bucket.objects("")])
    later = LocalArchive(backend.instances, backend.pool, bucket, "this-installation")
    state = later.maintain(parent, paused=False, timeout_seconds=60)
    assert state.archived_until is None
    assert f"has lost base backup {lost.backup_id}" in (state.problem or "")
    eventually(lambda: later.maintain(parent, paused=False, timeout_seconds=60).archived_until is not None)
    (again,) = backups.complete()
    (gap,) = later.maintain(parent, paused=False, timeout_seconds=60).gaps
    assert (gap.begins_at, gap.ends_at) == (hole.since, again.end_time)
    assert sent <= WalArchive(bucket, parent.service_id).names()
