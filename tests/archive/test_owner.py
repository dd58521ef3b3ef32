"""One installation writes to an archive; the one that lost it is refused, with what to do."""

import pytest

from harness.faulty_store import Faults, faulty_store
from ramet.archive import owner
from ramet.archive.object_store import Bucket, open_bucket
from ramet.errors import Failed


def test_the_first_installation_becomes_the_writer(bucket: Bucket) -> None:
    owner.claim(bucket, "first")
    owner.claim(bucket, "first")
    owner.check(bucket, "first")


def test_another_installation_is_refused(bucket: Bucket) -> None:
    owner.claim(bucket, "first")
    with pytest.raises(Failed, match=r"belongs to installation first on .* and this is installation second") as caught:
        owner.claim(bucket, "second")
    assert caught.value.code == "ARCHIVE_TAKEN_OVER"


def test_another_installation_is_refused_by_a_store_that_ignores_conditions(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overwrite(self: Bucket, key: str, content: bytes) -> bool:
        self.write(key, content)
        return True

    monkeypatch.setattr(type(bucket), "create", overwrite)
    owner.claim(bucket, "first")
    with pytest.raises(Failed, match="belongs to installation first"):
        owner.claim(bucket, "second")
    owner.check(bucket, "first")


def test_who_takes_over_writes_and_the_earlier_writer_is_refused(bucket: Bucket) -> None:
    owner.claim(bucket, "first")
    owner.take_over(bucket, "second")
    owner.check(bucket, "second")
    with pytest.raises(Failed, match="Nothing is written to it from here"):
        owner.check(bucket, "first")


def test_an_archive_without_a_writer_can_be_taken_over(bucket: Bucket) -> None:
    owner.take_over(bucket, "first")
    owner.check(bucket, "first")


def test_an_archive_that_lost_its_writer_is_not_written_to(bucket: Bucket) -> None:
    with pytest.raises(Failed, match=r"lacks ramet-owner\.json"):
        owner.check(bucket, "first")


@pytest.mark.parametrize(
    "faults",
    [
        Faults(reset_request=1.0, most_in_a_row=1),
        Faults(reset_answer=1.0, most_in_a_row=1),
        Faults(truncated=1.0, most_in_a_row=1),
    ],
    ids=["reset request", "reset answer", "truncated"],
)
def test_a_take_over_whose_answer_is_lost_is_tried_again(
    s3_bucket: Bucket, s3_endpoint: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.claim(s3_bucket, "first")
    with faulty_store(s3_endpoint, faults) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        owner.take_over(open_bucket(s3_bucket.url), "second")
        assert store.injected.total() > 1
    owner.check(s3_bucket, "second")


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff"])
def test_a_damaged_name_of_the_writer_is_said_to_be_so_and_can_be_taken_over(bucket: Bucket, content: bytes) -> None:
    bucket.write("ramet-owner.json", content)
    with pytest.raises(Failed, match=r"ramet-owner\.json, which .* is damaged") as caught:
        owner.claim(bucket, "first")
    assert "remove that object" in (caught.value.details or "")
    owner.take_over(bucket, "first")
    owner.check(bucket, "first")
