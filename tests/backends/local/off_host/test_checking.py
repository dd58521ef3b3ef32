"""Reading the archive back: what was altered, damaged or removed is named, within a budget, in turns."""

import gzip
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ramet.archive import layout
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket, open_bucket
from ramet.archive.wal import WalArchive
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host.archive import LocalArchive
from ramet.backends.local.off_host.checking import check_archive, concerns, shown_faults
from ramet.backends.local.off_host.digests import forget_digests, record_digest
from ramet.backends.local.off_host.progress import Base, CheckProgress, read_progress
from tests.archive.test_base_backups import INFO
from tests.backends.local.hosts import new_server

SERVICE = INFO.server_name
SEGMENTS = [f"00000001000000000000000{number}" for number in range(3, 7)]
NEWEST = Base(INFO.backup_id, INFO.end_time, INFO.begin_lsn, INFO.end_lsn, INFO.begin_segment)
ALL = 1 << 40


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    (tmp_path / "nas").mkdir()
    return open_bucket((tmp_path / "nas").as_uri())


@pytest.fixture
def paths(tmp_path: Path, bucket: Bucket) -> ServicePaths:
    """A service with a base backup of two parts and four WAL segments in the archive."""
    found = ServicePaths(tmp_path / SERVICE, tmp_path / "sockets")
    tree = tmp_path / "data"
    tree.mkdir()
    found.archive.mkdir(parents=True)
    for name in ("1", "2"):
        (tree / name).write_bytes(os.urandom(60_000))
    BaseBackups(bucket, SERVICE, part_bytes=70_000).upload(INFO, tree)
    for name in SEGMENTS:
        (found.archive / name).write_bytes(os.urandom(50_000))
        record_digest(found, name, WalArchive(bucket, SERVICE).upload(found.archive / name))
    return found


def faults(paths: ServicePaths, bucket: Bucket) -> list[str]:
    check_archive(paths, bucket, SERVICE, ALL)
    return sorted(read_progress(paths, CheckProgress).faults)


def test_a_sound_archive_has_no_faults(paths: ServicePaths, bucket: Bucket) -> None:
    assert faults(paths, bucket) == []
    assert shown_faults(read_progress(paths, CheckProgress)) is None


def test_an_altered_segment_is_named_though_it_can_be_decompressed(paths: ServicePaths, bucket: Bucket) -> None:
    key = layout.wal_key(SERVICE, SEGMENTS[1])
    bucket.write(key, gzip.compress(b"something else"))
    assert faults(paths, bucket) == [key]
    found = read_progress(paths, CheckProgress)
    assert SEGMENTS[1] in (shown_faults(found) or "")
    assert "was altered" in (shown_faults(found) or "")
    assert concerns(found, SERVICE, NEWEST)
    bucket.delete([key])
    WalArchive(bucket, SERVICE).upload(paths.archive / SEGMENTS[1])
    assert faults(paths, bucket) == []


def test_a_removed_segment_is_named(paths: ServicePaths, bucket: Bucket) -> None:
    key = layout.wal_key(SERVICE, SEGMENTS[2])
    bucket.delete([key])
    assert faults(paths, bucket) == [key]
    assert f"lacks {SEGMENTS[2]}" in (shown_faults(read_progress(paths, CheckProgress)) or "")


def test_what_is_discarded_while_it_is_checked_is_no_fault(
    paths: ServicePaths, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = WalArchive.sizes

    def discarded_then(wal: WalArchive) -> dict[str, int]:
        found = sizes(wal)
        forget_digests(paths, {SEGMENTS[0]})
        bucket.delete([layout.wal_key(SERVICE, SEGMENTS[0])])
        return found

    monkeypatch.setattr(WalArchive, "sizes", discarded_then)
    assert faults(paths, bucket) == []


# Between the description and the checksums, and between those and the parts.
@pytest.mark.parametrize("before", ["find", "parts"])
def test_a_base_backup_that_is_discarded_while_it_is_checked_is_no_fault(
    paths: ServicePaths, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    read = getattr(BaseBackups, before)

    def discarded_then(backups: BaseBackups, backup_id: str) -> object:
        found = read(backups, backup_id)
        backups.delete(backup_id)
        return found

    monkeypatch.setattr(BaseBackups, before, discarded_then)
    assert faults(paths, bucket) == []


def test_what_retention_removed_is_not_missed(paths: ServicePaths, bucket: Bucket) -> None:
    bucket.delete([layout.wal_key(SERVICE, SEGMENTS[0])])
    forget_digests(paths, {SEGMENTS[0]})
    assert faults(paths, bucket) == []


def test_an_altered_part_is_named(paths: ServicePaths, bucket: Bucket) -> None:
    key = layout.part_key(SERVICE, INFO.backup_id, 1)
    content = bytearray(bucket.read(key) or b"")
    content[9999] ^= 1
    bucket.write(key, bytes(content))
    assert faults(paths, bucket) == [key]
    assert concerns(read_progress(paths, CheckProgress), SERVICE, NEWEST)


def test_what_an_earlier_base_backup_needs_is_no_concern_of_the_newest(paths: ServicePaths, bucket: Bucket) -> None:
    bucket.delete([layout.wal_key(SERVICE, SEGMENTS[0])])
    assert faults(paths, bucket) != []
    later = Base("20260201T000000", INFO.end_time, "0/4000028", "0/4000120", SEGMENTS[1])
    assert not concerns(read_progress(paths, CheckProgress), SERVICE, later)


def test_each_call_reads_its_budget_and_all_objects_get_their_turn(paths: ServicePaths, bucket: Bucket) -> None:
    seen, objects = list[str](), 2 + len(SEGMENTS)
    for _ in range(objects):
        assert 0 < check_archive(paths, bucket, SERVICE, 1) < 70_000
        seen.append(read_progress(paths, CheckProgress).after)
    assert len(set(seen)) == objects
    check_archive(paths, bucket, SERVICE, 1)
    assert read_progress(paths, CheckProgress).after == seen[0]
    assert check_archive(paths, bucket, SERVICE, 100_000) >= 100_000


@pytest.mark.parametrize(
    ("key", "content", "said"),
    [
        (layout.info_key(SERVICE, INFO.backup_id), b"", "is damaged"),
        (layout.checksum_key(SERVICE, INFO.backup_id, 1), b"{}", "is damaged"),
        (layout.checksum_key(SERVICE, INFO.backup_id, 0), None, "has no parts"),
        (layout.checksum_key(SERVICE, INFO.backup_id, 1), None, "has no checksum"),
        (layout.part_key(SERVICE, INFO.backup_id, 1), None, "is missing"),
    ],
)
def test_a_base_backup_that_is_not_whole_is_named_and_the_rest_is_checked(
    paths: ServicePaths, bucket: Bucket, key: str, content: bytes | None, said: str
) -> None:
    segment = layout.wal_key(SERVICE, SEGMENTS[1])
    bucket.delete([key, segment])
    if content is not None:
        bucket.write(key, content)
    assert faults(paths, bucket) == [layout.info_key(SERVICE, INFO.backup_id), segment]
    found = read_progress(paths, CheckProgress)
    assert said in (shown_faults(found) or "")
    assert concerns(found, SERVICE, NEWEST)


def test_wal_that_no_base_backup_needs_is_not_missed(backend: LocalBackend, bucket: Bucket, tmp_path: Path) -> None:
    server = new_server(backend.instances)
    paths, name = backend.instances.paths(server.service_id), server.archive_name
    paths.root.mkdir(parents=True)
    (tmp_path / "data").mkdir()
    info = replace(INFO, server_name=name, begin_segment=SEGMENTS[2])
    BaseBackups(bucket, name).upload(info, tmp_path / "data")
    wal = WalArchive(bucket, name)
    for segment in SEGMENTS:
        (tmp_path / segment).write_bytes(os.urandom(50_000))
        record_digest(paths, segment, wal.upload(tmp_path / segment))
    for lost in (0, 3):  # a clean-up that was killed has removed the first one
        bucket.delete([layout.wal_key(name, SEGMENTS[lost])])
    LocalArchive(backend.instances, backend.pool, bucket, "this-installation").discard(server, INFO.end_time)
    assert wal.names() == {SEGMENTS[2]}
    check_archive(paths, bucket, name, ALL)
    assert list(read_progress(paths, CheckProgress).faults) == [layout.wal_key(name, SEGMENTS[3])]
