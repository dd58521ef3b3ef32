"""WAL in the object store: under Barman's names, each file once, and replaced only where it is damaged."""

import gzip
from pathlib import Path

import pytest

from ramet.archive import layout
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.errors import Failed

SEGMENT = "0000000100000003000000A7"


@pytest.fixture
def wal(bucket: Bucket) -> WalArchive:
    return WalArchive(bucket, "svc1234567")


def written(directory: Path, name: str, content: bytes = b"wal") -> Path:
    path = directory / name
    path.write_bytes(content)
    return path


def test_files_get_the_names_that_barman_looks_for(wal: WalArchive, tmp_path: Path) -> None:
    for name in (SEGMENT, "00000002.history"):
        wal.upload(written(tmp_path, name))
    assert sorted(found.key for found in wal.bucket.objects("svc1234567/")) == [
        "svc1234567/wals/0000000100000003/0000000100000003000000A7.gz",
        "svc1234567/wals/00000002.history.gz",
    ]
    assert wal.names() == {SEGMENT, "00000002.history"}


def test_a_file_comes_back_as_it_was(wal: WalArchive, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096
    wal.upload(written(tmp_path, SEGMENT, content))
    assert wal.download(SEGMENT) == content


def test_uploading_twice_is_uploading_once(wal: WalArchive, tmp_path: Path) -> None:
    path = written(tmp_path, SEGMENT)
    wal.upload(path)
    wal.upload(path)
    assert wal.names() == {SEGMENT}


def test_another_content_under_the_same_name_is_refused(wal: WalArchive, tmp_path: Path) -> None:
    wal.upload(written(tmp_path, SEGMENT, b"first"))
    with pytest.raises(Failed, match=f"has another {SEGMENT} of service svc1234567") as caught:
        wal.upload(written(tmp_path, SEGMENT, b"second"))
    assert caught.value.code == "ARCHIVE_CONFLICT"
    assert wal.download(SEGMENT) == b"first"


@pytest.mark.parametrize("stored", [b"x", b"", gzip.compress(b"wal")[:-1]], ids=["no gzip", "empty", "cut short"])
def test_a_damaged_file_is_replaced_when_it_is_sent_again(wal: WalArchive, tmp_path: Path, stored: bytes) -> None:
    path = written(tmp_path, SEGMENT)
    digest = wal.upload(path)
    wal.bucket.write(layout.wal_key(wal.server, SEGMENT), stored)
    assert wal.upload(path) == digest
    assert wal.download(SEGMENT) == b"wal"


def test_a_missing_file_is_named(wal: WalArchive) -> None:
    with pytest.raises(Failed, match=f"lacks {SEGMENT}"):
        wal.download(SEGMENT)


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"x" * 9999)[:-20], b"", gzip.compress(bytes(16 * 1024 * 1024 + 1))],
    ids=["not compressed", "cut short", "empty", "larger than a segment"],
)
def test_a_damaged_file_is_named(wal: WalArchive, content: bytes) -> None:
    wal.bucket.write(layout.wal_key(wal.server, SEGMENT), content)
    with pytest.raises(Failed, match=f"{SEGMENT} of service svc1234567 .* is damaged"):
        wal.download(SEGMENT)


@pytest.mark.parametrize(
    "name", ["archtemp.1", f"{SEGMENT}.00000028.backup", f"{SEGMENT}.partial", "0000000100000003000000a7", "README"]
)
def test_other_files_of_an_archive_directory_are_no_wal(name: str) -> None:
    assert not layout.is_wal_file(name)
