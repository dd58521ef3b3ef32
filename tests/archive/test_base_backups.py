"""Base backups in the object store: resumed after an interruption, verified, and found out when altered."""

import contextlib
import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import pytest

from ramet.archive import layout
from ramet.archive.backup_info import BackupInfo, parse_backup_info
from ramet.archive.base_backups import BaseBackups, Checksum
from ramet.archive.object_store import Bucket
from ramet.errors import Failed

SERVER = "svc1234567"
INFO = BackupInfo(
    backup_id="20260115T093000",
    server_name=SERVER,
    system_identifier=7329483294832948329,
    pg_version=150004,
    timeline=1,
    begin_time=datetime(2026, 1, 15, 9, 30, tzinfo=UTC),
    end_time=datetime(2026, 1, 15, 9, 30, 1, 5, tzinfo=UTC),
    begin_lsn="0/3000028",
    end_lsn="0/3000120",
    begin_segment="000000010000000000000003",
    end_segment="000000010000000000000003",
    size_bytes=12345,
    label="START WAL LOCATION: 0/3000028 (file 000000010000000000000003)\nLABEL: it's\n",
)


@pytest.fixture
def backups(bucket: Bucket) -> BaseBackups:
    return BaseBackups(bucket, SERVER, part_bytes=1_000_000)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A data directory with nested and empty directories, empty files, and more bytes than two parts hold."""
    root = tmp_path / "data"
    for name, size in {
        "PG_VERSION": 3,
        "base/5/1": 700_000,
        "base/5/2": 600_000,
        "base/5/3": 0,
        "global/1": 800_000,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
        path.chmod(0o600)
    (root / "pg_notify").mkdir(mode=0o700)
    return root


def content(tree: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(tree)): p.read_bytes() if p.is_file() else None for p in tree.rglob("*")}


def test_a_base_backup_comes_back_as_it_was(backups: BaseBackups, tree: Path, tmp_path: Path) -> None:
    backups.upload(INFO, tree)
    assert backups.complete() == [INFO]
    download(backups, tmp_path / "restored")
    assert content(tmp_path / "restored") == content(tree)
    assert (tmp_path / "restored" / "global" / "1").stat().st_mode & 0o777 == 0o600


def test_progress_is_reported_in_bytes(backups: BaseBackups, tree: Path, tmp_path: Path) -> None:
    uploaded, downloaded = list[tuple[int, int]](), list[int]()
    backups.upload(INFO, tree, lambda done, total: uploaded.append((done, total)))
    assert [total for _, total in uploaded] == [2_100_003] * 3
    assert uploaded[-1][0] == 2_100_003
    download(backups, tmp_path / "restored", downloaded.append)
    assert sum(downloaded) == backups.sizes()[INFO.backup_id]


def download(backups: BaseBackups, tree: Path, progress: Callable[[int], None] = lambda _bytes: None) -> None:
    tree.mkdir(mode=0o700)
    for number, checksum in enumerate(backups.parts(INFO.backup_id)):
        backups.unpack(INFO.backup_id, number, checksum, tree, (os.getuid(), os.getgid()), progress)


class Interrupted(Exception):
    pass


def interrupt_after(parts: int) -> Callable[[int, int], None]:
    def progress(_done: int, _total: int) -> None:
        nonlocal parts
        parts -= 1
        if parts == 0:
            raise Interrupted

    return progress


def test_an_interrupted_upload_continues_with_the_next_part(backups: BaseBackups, tree: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        backups.upload(INFO, tree, interrupt_after(2))
    assert backups.complete() == []
    first = layout.part_key(SERVER, INFO.backup_id, 0)
    before = backups.bucket.read_version(first)
    backups.upload(INFO, tree)
    assert backups.bucket.read_version(first) == before
    assert backups.complete() == [INFO]
    download(backups, tmp_path / "restored")
    assert content(tmp_path / "restored") == content(tree)


@pytest.mark.parametrize("left", [None, b"cut short"], ids=["lost", "cut short"])
def test_an_upload_that_continues_uploads_parts_that_are_not_there_any_more_again(
    backups: BaseBackups, tree: Path, left: bytes | None
) -> None:
    backups.upload(INFO, tree)
    part = layout.part_key(SERVER, INFO.backup_id, 0)
    backups.bucket.delete([layout.info_key(SERVER, INFO.backup_id), part])
    if left is not None:
        backups.bucket.write(part, left)
    backups.upload(INFO, tree)
    assert backups.complete() == [INFO]
    backups.verify(INFO)


def test_a_part_that_arrives_altered_is_not_taken_for_uploaded(
    backups: BaseBackups, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = layout.part_key(SERVER, INFO.backup_id, 0)
    with monkeypatch.context() as patched:
        usual = Bucket.writer

        @contextlib.contextmanager
        def altering(bucket: Bucket, key: str) -> Iterator[IO[bytes]]:
            with usual(bucket, key) as writer:
                yield writer
            bucket.write(key, b"something else")

        patched.setattr(Bucket, "writer", altering)
        with pytest.raises(Failed, match=f"{first} .* is not what was uploaded"):
            backups.upload(INFO, tree)
    assert backups.complete() == []
    backups.upload(INFO, tree)
    backups.verify(INFO)


def test_an_altered_part_is_named(backups: BaseBackups, tree: Path, tmp_path: Path) -> None:
    backups.upload(INFO, tree)
    key = layout.part_key(SERVER, INFO.backup_id, 1)
    altered = bytearray(backups.bucket.read(key) or b"")
    altered[len(altered) // 2] ^= 1
    backups.bucket.write(key, bytes(altered))
    with pytest.raises(Failed, match=key):
        backups.verify(INFO)
    with pytest.raises(Failed, match=key):
        download(backups, tmp_path / "restored")


def test_a_missing_part_is_named(backups: BaseBackups, tree: Path) -> None:
    backups.upload(INFO, tree)
    backups.verify(INFO)
    key = layout.part_key(SERVER, INFO.backup_id, 1)
    backups.bucket.delete([key])
    with pytest.raises(Failed, match=f"{key} is missing"):
        backups.verify(INFO)


def test_a_deleted_base_backup_leaves_nothing(backups: BaseBackups, tree: Path) -> None:
    backups.upload(INFO, tree)
    backups.delete(INFO.backup_id)
    backups.delete(INFO.backup_id)
    assert list(backups.bucket.objects(f"{SERVER}/")) == []


def test_the_description_says_what_it_was_given(tree: Path) -> None:
    assert parse_backup_info(INFO.backup_id, INFO.dump()) == INFO


def test_what_the_cloud_tools_of_barman_write_is_read_and_nothing_while_they_are_at_it() -> None:
    written = INFO.dump().replace(b"size=12345\n", b"size=None\ncluster_size=12345\n")
    assert parse_backup_info(INFO.backup_id, written) == INFO
    begun = written.replace(b"status=DONE", b"status=STARTED").replace(b"end_time=2026", b"end_time=None\nx=2026")
    assert parse_backup_info(INFO.backup_id, begun) is None


def test_a_description_without_a_field_is_refused_by_its_name() -> None:
    shortened = b"".join(line for line in INFO.dump().splitlines(keepends=True) if not line.startswith(b"end_wal="))
    with pytest.raises(ValueError, match="lacks end_wal"):
        parse_backup_info(INFO.backup_id, shortened)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\xff\xfe",
        INFO.dump()[:200],
        INFO.dump().replace(b"systemid=7", b"systemid=x"),
        INFO.dump().replace(b"begin_xlog=0/", b"begin_xlog=0."),
        INFO.dump().replace(b"begin_wal=0000", b"begin_wal=00"),
        INFO.dump().replace(b'backup_label="', b"backup_label="),
    ],
)
def test_a_damaged_description_is_named_and_hides_no_other_base_backup(
    backups: BaseBackups, tree: Path, damaged: bytes
) -> None:
    backups.upload(INFO, tree)
    later = replace(INFO, backup_id="20260116T093000")
    backups.upload(later, tree)
    key = layout.info_key(SERVER, INFO.backup_id)
    backups.bucket.write(key, damaged)
    assert backups.complete() == [later]
    assert backups.ids() == [INFO.backup_id, later.backup_id]
    with pytest.raises(Failed, match=f"{key} .* is damaged"):
        backups.find(INFO.backup_id)


def test_an_upload_whose_first_parts_were_removed_is_not_complete(backups: BaseBackups, tree: Path) -> None:
    def remove_first(done: int, total: int) -> None:
        if done == total:
            backups.bucket.delete([layout.part_key(SERVER, INFO.backup_id, 0)])

    with pytest.raises(Failed, match="is missing from the archive"):
        backups.upload(INFO, tree, remove_first)
    assert backups.find(INFO.backup_id) is None


def test_a_damaged_checksum_is_named_and_its_part_is_uploaded_once_more(backups: BaseBackups, tree: Path) -> None:
    backups.upload(INFO, tree)
    key = layout.checksum_key(SERVER, INFO.backup_id, 1)
    backups.bucket.write(key, b"{}")
    with pytest.raises(Failed, match=f"{key} .* is damaged"):
        backups.verify(INFO)
    backups.upload(INFO, tree)
    backups.verify(INFO)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_part_that_holds_a_link_is_refused_before_anything_is_written_through_it(
    backups: BaseBackups, tmp_path: Path, kind: bytes
) -> None:
    link, made = tarfile.TarInfo("link"), io.BytesIO()
    link.type, link.linkname = kind, "global"
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        tar.addfile(link)
    part = made.getvalue()
    backups.bucket.write(layout.part_key(SERVER, INFO.backup_id, 0), part)
    checksum = Checksum(len(part), hashlib.sha256(part).hexdigest())
    with pytest.raises(Failed, match="holds 'link', which is neither a file nor a directory"):
        backups.unpack(INFO.backup_id, 0, checksum, tmp_path, (os.getuid(), os.getgid()))
    assert not os.path.lexists(tmp_path / "link")


@pytest.mark.parametrize("name", ["../beside", "/tmp/absolute", "base/../../beside"])
def test_a_part_that_would_be_unpacked_elsewhere_is_refused(backups: BaseBackups, tmp_path: Path, name: str) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo(name))
    part = made.getvalue()
    backups.bucket.write(layout.part_key(SERVER, INFO.backup_id, 0), part)
    checksum = Checksum(len(part), hashlib.sha256(part).hexdigest())
    tree = tmp_path / "tree"
    tree.mkdir()
    with pytest.raises(Failed, match="not within the directory"):
        backups.unpack(INFO.backup_id, 0, checksum, tree, (os.getuid(), os.getgid()))
    assert [path.name for path in tmp_path.iterdir() if path.name == "beside"] == []
