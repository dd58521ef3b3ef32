"""The archive through a proxy that answers 503, resets connections, cuts answers short and lists late."""

import contextlib
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

from harness.faulty_store import Faults, FaultyStore, faulty_store
from ramet.archive import object_store
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket, open_bucket
from ramet.archive.wal import WalArchive
from ramet.errors import Unavailable
from tests.archive.test_base_backups import INFO, content, download

MANY = Faults(seed=7, slow_down=0.1, reset_request=0.1, reset_answer=0.1, truncated=0.1, delay=0.1, delay_seconds=0.01)


@pytest.fixture
def bucket(s3_bucket: Bucket) -> Bucket:
    return s3_bucket


def through(store: FaultyStore, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Return the same bucket, reached through the proxy; the pauses before requests are repeated are short."""
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=4)}
    monkeypatch.setitem(object_store._RETRIES, "backoff", backoff)
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
    return open_bucket(bucket.url)


def insist(action: Callable[[], object]) -> object:
    """Do something until the store lets it, as a duty does; what the library does not repeat itself is done again."""
    for _ in range(20):
        with contextlib.suppress(Unavailable):
            return action()
    raise AssertionError("the store refused it 20 times")


def written_objects(store: FaultyStore, bucket: Bucket) -> None:
    for number in range(40):
        bucket.write(f"a/{number}", b"x" * 1000)
        assert bucket.read(f"a/{number}") == b"x" * 1000


def downloaded(backups: BaseBackups, tree: Path) -> None:
    shutil.rmtree(tree, ignore_errors=True)
    download(backups, tree)


def test_every_fault_happens_and_none_is_seen_by_the_caller(
    bucket: Bucket, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with faulty_store(s3_endpoint, MANY) as store:
        written_objects(store, through(store, bucket, monkeypatch))
        assert set(store.injected) == {"slow_down", "reset_request", "reset_answer", "truncated", "delay"}
    assert len(list(bucket.objects("a/"))) == 40


def test_the_same_seed_brings_the_same_faults(
    bucket: Bucket, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for _ in range(2):
        with faulty_store(s3_endpoint, MANY) as store:
            written_objects(store, through(store, bucket, monkeypatch))
            seen.append(store.injected)
    assert seen[0] == seen[1]


@pytest.mark.slow
def test_a_base_backup_and_wal_arrive_whole_in_spite_of_faults(
    bucket: Bucket, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tree = tmp_path / "data"
    tree.mkdir()
    for number in range(4):
        (tree / str(number)).write_bytes(os.urandom(12_000_000))
    segment = tmp_path / "000000010000000000000001"
    segment.write_bytes(os.urandom(16 * 1024 * 1024))
    with faulty_store(s3_endpoint, MANY) as store:
        faulty = through(store, bucket, monkeypatch)
        backups, wal = (
            BaseBackups(faulty, INFO.server_name, part_bytes=30_000_000),
            WalArchive(faulty, INFO.server_name),
        )
        insist(lambda: backups.upload(INFO, tree))
        insist(lambda: wal.upload(segment))
        insist(lambda: downloaded(backups, tmp_path / "restored"))
        assert wal.download(segment.name) == segment.read_bytes()
        assert store.injected.total() > 0
    assert content(tmp_path / "restored") == content(tree)


def test_an_object_that_does_not_come_within_the_time_of_one_request_is_read(
    bucket: Bucket, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "_READ_BYTES", 1024 * 1024)
    whole = os.urandom(9_500_000)
    bucket.write("large", whole)
    with faulty_store(s3_endpoint, Faults(longest_answer_bytes=2 * 1024 * 1024)) as store:
        assert b"".join(through(store, bucket, monkeypatch).stream("large")) == whole


@pytest.mark.parametrize("etags", ["weak", "none"])
def test_a_large_object_is_read_from_a_store_whose_answers_have_no_strong_etag(
    bucket: Bucket, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, etags: Literal["weak", "none"]
) -> None:
    monkeypatch.setattr(object_store, "_READ_BYTES", 1024 * 1024)
    whole = os.urandom(3_500_000)
    bucket.write("large", whole)
    with faulty_store(s3_endpoint, Faults(etags=etags)) as store:
        assert b"".join(through(store, bucket, monkeypatch).stream("large")) == whole


def test_a_listing_may_come_late(bucket: Bucket, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with faulty_store(s3_endpoint, Faults(stale_listings=2)) as store:
        late = through(store, bucket, monkeypatch)

        def keys() -> list[str]:
            return [found.key for found in late.objects("a/")]

        late.write("a/1", b"x")
        assert [keys(), keys(), keys()] == [[], [], ["a/1"]]
        late.delete(["a/1"])
        assert [keys(), keys(), keys()] == [["a/1"], ["a/1"], []]
        assert late.read("a/1") is None


@pytest.mark.parametrize(
    "action",
    [
        lambda bucket: bucket.read("a"),
        lambda bucket: bucket.write("a", b"x"),
        lambda bucket: list(bucket.objects("a/")),
    ],
    ids=["read", "write", "list"],
)
def test_a_store_that_always_wants_fewer_requests_is_asked_a_bounded_number_of_times(
    action: Callable[[Bucket], object], bucket: Bucket, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with faulty_store(s3_endpoint) as store, store.refusing(503, "SlowDown"):
        with pytest.raises(Unavailable) as caught:
            action(through(store, bucket, monkeypatch))
        assert caught.value.code == "ARCHIVE_UNAVAILABLE"
        assert 2 <= store.requests.total() <= 6
    assert list(bucket.objects("")) == []
