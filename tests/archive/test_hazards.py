"""What an object store may do to a client: each case has a name and a remedy, and is taken for nothing else."""

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta

import httpx
import pytest

from harness.faulty_store import Faults, FaultyStore, faulty_store
from ramet.archive import object_store, owner
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket, open_bucket
from ramet.errors import Unavailable
from tests.archive.test_base_backups import INFO


def written(bucket: Bucket) -> None:
    with bucket.writer("large") as writer:
        writer.write(b"x" * 20_000_000)


ACTIONS: dict[str, Callable[[Bucket], object]] = {
    "read": lambda bucket: bucket.read("a"),
    "write": lambda bucket: bucket.write("a", b"x"),
    "create": lambda bucket: bucket.create("a", b"x"),
    "list": lambda bucket: list(bucket.objects("a/")),
    "directories": lambda bucket: bucket.directories(),
    "stream": lambda bucket: list(bucket.stream("a")),
    "write in parts": written,
}


@pytest.fixture
def proxy(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, s3_environment: None) -> Iterator[FaultyStore]:
    with faulty_store(s3_endpoint) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        yield store


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "AccessDenied"])
def test_credentials_that_are_refused_are_named_with_the_reason(
    proxy: FaultyStore, s3_bucket: Bucket, action: str, code: str
) -> None:
    with proxy.refusing(403, code), pytest.raises(Unavailable, match=rf"refuses the credentials \({code}\)") as caught:
        ACTIONS[action](open_bucket(s3_bucket.url))
    assert caught.value.code == "ARCHIVE_REFUSED"
    assert "AWS_ACCESS_KEY_ID" in (caught.value.details or "")


@pytest.mark.parametrize("action", ACTIONS)
def test_a_clock_that_is_wrong_is_not_taken_for_wrong_credentials(
    proxy: FaultyStore, s3_bucket: Bucket, action: str
) -> None:
    with (
        proxy.refusing(403, "RequestTimeTooSkewed"),
        pytest.raises(Unavailable, match="the clock of this host") as caught,
    ):
        ACTIONS[action](open_bucket(s3_bucket.url))
    assert caught.value.code == "ARCHIVE_CLOCK_SKEW"
    assert "timedatectl" in (caught.value.details or "")


@pytest.mark.parametrize("action", ACTIONS)
def test_a_bucket_that_vanishes_is_named(s3_endpoint: str, s3_bucket: Bucket, action: str) -> None:
    name = s3_bucket.url.split("/")[2]
    httpx.delete(f"{s3_endpoint}/{name}", trust_env=False).raise_for_status()
    with pytest.raises(Unavailable, match="does not exist") as caught:
        ACTIONS[action](s3_bucket)
    assert caught.value.code == "ARCHIVE_BUCKET_MISSING"


@pytest.mark.parametrize("action", ACTIONS)
def test_a_store_that_accepts_connections_and_never_answers_is_away(
    proxy: FaultyStore, s3_bucket: Bucket, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for client in ("_CLIENT", "_LISTING_CLIENT"):
        monkeypatch.setitem(getattr(object_store, client), "timeout", "0.2s")
    for retries in ("_RETRIES", "_LISTING_RETRIES"):
        monkeypatch.setitem(getattr(object_store, retries), "retry_timeout", timedelta(seconds=0.1))
    bucket = open_bucket(s3_bucket.url)
    with proxy.stalled(), pytest.raises(Unavailable, match=r"does not answer: .*(timed out|error sending)") as caught:
        ACTIONS[action](bucket)
    assert caught.value.code == "ARCHIVE_UNAVAILABLE"


def test_the_writer_of_an_archive_is_the_same_whatever_listings_show(
    s3_bucket: Bucket, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with faulty_store(s3_endpoint, Faults(stale_listings=1000)) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        late = open_bucket(s3_bucket.url)
        owner.claim(late, "first")
        owner.take_over(late, "second")
        owner.check(late, "second")


def test_a_base_backup_that_is_not_listed_yet_is_neither_lost_nor_uploaded_twice(
    s3_bucket: Bucket, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree = tmp_path_factory.mktemp("data")
    (tree / "PG_VERSION").write_text("18")
    with faulty_store(s3_endpoint, Faults(stale_listings=3)) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        backups = BaseBackups(open_bucket(s3_bucket.url), INFO.server_name)
        backups.upload(INFO, tree)
        assert backups.complete() == []
        sent = store.requests["PUT"]
        backups.upload(INFO, tree)
        assert store.requests["PUT"] == sent + 1  # the description
        assert backups.parts(INFO.backup_id) != []
    assert BaseBackups(s3_bucket, INFO.server_name).complete() == [INFO]


def test_a_listing_that_ends_early_is_asked_for_again(
    s3_bucket: Bucket, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_bucket.write("a/b/c", b"x")
    with faulty_store(s3_endpoint, Faults(truncated=1.0, most_in_a_row=2)) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        behind = open_bucket(s3_bucket.url)
        assert [found.key for found in behind.objects("a/")] == ["a/b/c"]
        assert behind.directories("a/") == ["b"]
        assert store.injected["truncated"] == 4


def test_a_truncated_answer_is_never_taken_for_the_object(
    s3_bucket: Bucket, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_bucket.write("a", b"x" * 1_000_000)
    with faulty_store(s3_endpoint, Faults(truncated=1.0, most_in_a_row=1_000_000)) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        always = open_bucket(s3_bucket.url)
        with contextlib.suppress(Unavailable):
            assert always.read("a") == b"x" * 1_000_000
        with contextlib.suppress(Unavailable):
            assert b"".join(always.stream("a")) == b"x" * 1_000_000
        assert store.injected["truncated"] > 1
