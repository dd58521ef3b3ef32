"""An object store over HTTP: what is written is read, listed and replaced only on the terms that the caller names."""

import contextlib
import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ramet.archive import object_store
from ramet.archive.object_store import Bucket, open_bucket
from ramet.errors import Invalid, Unavailable


def test_an_object_is_read_as_it_was_written(bucket: Bucket) -> None:
    bucket.write("a/b", b"first")
    bucket.write("a/b", b"second")
    assert bucket.read("a/b") == b"second"
    assert bucket.size_bytes("a/b") == 6
    assert bucket.read("a/c") is None
    assert bucket.size_bytes("a/c") is None


def test_an_object_is_created_once(bucket: Bucket) -> None:
    assert bucket.create("a", b"first")
    assert not bucket.create("a", b"second")
    assert bucket.read("a") == b"first"


def test_an_object_that_somebody_else_changed_is_not_replaced(bucket: Bucket) -> None:
    bucket.write("a", b"first")
    found = bucket.read_version("a")
    assert found is not None
    bucket.write("a", b"second")
    assert not bucket.replace("a", b"third", found[1])
    current = bucket.read_version("a")
    assert current is not None
    assert bucket.replace("a", b"third", current[1])
    assert bucket.read("a") == b"third"


def test_a_large_object_is_written_in_parts_and_appears_at_the_end(bucket: Bucket) -> None:
    piece = bytes(range(256)) * 4096
    with bucket.writer("large") as writer:
        for _ in range(40):
            writer.write(piece)
        assert bucket.size_bytes("large") is None
    assert b"".join(bucket.stream("large")) == piece * 40


def test_an_object_that_is_written_again_while_it_is_read_is_not_mixed(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "_READ_BYTES", object_store._PIECE_BYTES)
    bucket.write("a", b"x" * 3 * object_store._PIECE_BYTES)
    pieces = bucket.stream("a")
    assert set(next(pieces)) == set(b"x")
    bucket.write("a", b"y" * 4 * object_store._PIECE_BYTES)
    with pytest.raises(Unavailable, match="was written again while it was read"):
        next(pieces)


def test_a_writer_that_fails_leaves_no_object(bucket: Bucket) -> None:
    with contextlib.suppress(ZeroDivisionError), bucket.writer("half") as writer:
        writer.write(b"x" * 20_000_000)
        raise ZeroDivisionError
    assert bucket.size_bytes("half") is None


def test_an_error_of_what_is_sent_is_not_that_of_the_archive(bucket: Bucket, tmp_path: Path) -> None:
    local = tmp_path / "1259"

    def read() -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(local))

    with pytest.raises(OSError, match="Input/output error") as caught, bucket.writer("half") as writer:
        writer.write(read())
    assert caught.value.filename == str(local)
    assert bucket.size_bytes("half") is None


def test_an_error_of_what_is_written_is_that_of_the_archive(tmp_path: Path) -> None:
    root = tmp_path / "nas"
    root.mkdir()
    directory = open_bucket(root.as_uri())

    def lose() -> bytes:
        root.rename(tmp_path / "elsewhere")
        return b"x"

    with pytest.raises(Unavailable, match="does not exist"), directory.writer("part") as writer:
        writer.write(lose())


def test_listing_pages_through_all_objects_below_a_prefix(bucket: Bucket) -> None:
    for number in range(1100):
        bucket.write(f"many/{number:05d}", b"x")
    bucket.write("manyother", b"x")
    assert sorted(found.key for found in bucket.objects("many/")) == [f"many/{number:05d}" for number in range(1100)]
    assert bucket.directories() == ["many"]


def test_deleting_ignores_what_does_not_exist(bucket: Bucket) -> None:
    bucket.write("a", b"x")
    bucket.delete(["a", "b"])
    assert bucket.read("a") is None


def test_a_bucket_that_does_not_exist_is_named(s3_environment: None) -> None:
    with pytest.raises(Unavailable, match=r"The bucket of the archive s3://absent/x does not exist") as caught:
        open_bucket("s3://absent/x").write("a", b"x")
    assert caught.value.code == "ARCHIVE_BUCKET_MISSING"


def test_a_bucket_that_does_not_exist_is_not_taken_for_an_object_that_does_not(s3_environment: None) -> None:
    with pytest.raises(Unavailable, match="does not exist"):
        open_bucket("s3://absent/x").read("a")


def test_a_store_that_does_not_answer_is_unavailable(s3_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(Unavailable, match="does not answer") as caught:
        open_bucket("s3://bucket").write("a", b"x")
    assert caught.value.code == "ARCHIVE_UNAVAILABLE"


def test_a_directory_that_is_not_mounted_is_unavailable_and_is_not_made(tmp_path: Path) -> None:
    absent = tmp_path / "nas"
    directory = open_bucket(absent.as_uri())
    for action in (
        lambda: directory.read("a"),
        lambda: directory.create("a", b"x"),
        lambda: directory.write("a", b"x"),
    ):
        with pytest.raises(Unavailable, match="does not exist"):
            action()
    assert not absent.exists()
    absent.mkdir()
    assert directory.create("a", b"x")


def test_objects_in_a_directory_are_private(tmp_path: Path) -> None:
    directory = open_bucket(tmp_path.as_uri())
    directory.write("a/b", b"x")
    with directory.writer("a/c") as writer:
        writer.write(b"x")
    assert directory.create("a/d", b"x")
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a").iterdir()} == {0o600}


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()], ids=["EIO", "kill"])
@pytest.mark.parametrize("act", [Bucket.write.__name__, Bucket.create.__name__])
def test_no_object_in_a_directory_is_seen_before_its_content_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, error: BaseException
) -> None:
    directory = open_bucket(tmp_path.as_uri())

    def refuse(_descriptor: int) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises((Unavailable, KeyboardInterrupt)):
            getattr(directory, act)("wals/a", b"x")
    assert directory.size_bytes("wals/a") is None
    assert list((tmp_path / "wals").iterdir()) == []
    getattr(directory, act)("wals/a", b"x")
    assert directory.read("wals/a") == b"x"


def test_an_object_in_a_directory_that_exists_is_flushed_with_the_directories_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = open_bucket(tmp_path.as_uri())
    assert directory.create("wals/a", b"x")
    flushed, fsync = set[str](), os.fsync

    def note(descriptor: int) -> None:
        flushed.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    assert not directory.create("wals/a", b"x")
    assert flushed >= {str(tmp_path), str(tmp_path / "wals"), str(tmp_path / "wals" / "a")}


def test_an_object_in_a_directory_may_exist_and_belong_to_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = open_bucket(tmp_path.as_uri())
    (tmp_path / "wals").mkdir()
    (tmp_path / "wals" / "a").write_bytes(b"theirs")

    def refuse(path: object, *_arguments: object, **_options: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    monkeypatch.setattr(os, "chmod", refuse)
    assert not directory.create("wals/a", b"x")
    assert directory.read("wals/a") == b"theirs"


def test_what_a_killed_writer_left_in_a_directory_goes_with_the_next_one(tmp_path: Path) -> None:
    directory = open_bucket(tmp_path.as_uri())
    (tmp_path / "part#1").write_bytes(b"half")
    with directory.writer("part") as writer:
        writer.write(b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["part"]


def test_an_outage_has_the_same_message_each_time(s3_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    messages = set()
    for _ in range(2):
        with pytest.raises(Unavailable) as caught:
            open_bucket("s3://bucket/prefix").write("one", b"1")
        messages.add(str(caught.value))
    assert len(messages) == 1, messages


@pytest.mark.parametrize(
    "url",
    ["ftp://bucket/x", "s3:///x", "bucket", "s3://key:secret@bucket/x", "s3://bucket?region=x", "file://mnt/nas"],
)
def test_a_url_that_names_no_archive_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="The archive URL"):
        open_bucket(url)


def test_a_listing_says_when_an_object_was_written(bucket: Bucket) -> None:
    bucket.write("a/b", b"x")
    (found,) = bucket.objects("a/")
    assert abs(datetime.now(UTC) - found.written_at) < timedelta(minutes=10)
    assert found.size_bytes == 1
