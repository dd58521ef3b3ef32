"""One installation writes to an archive; the one that lost it is refused, with what to do."""

import pytest

from ramet.archive import owner
from ramet.archive.object_store import Bucket
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


def test_who_takes_over_writes_and_the_earlier_writer_is_refused(bucket: Bucket) -> None:
    owner.claim(bucket, "first")
    before = owner.take_over(bucket, "second")
    assert before is not None
    assert before.installation == "first"
    owner.check(bucket, "second")
    with pytest.raises(Failed, match="Nothing is written to it from here"):
        owner.check(bucket, "first")


def test_an_archive_without_a_writer_can_be_taken_over(bucket: Bucket) -> None:
    assert owner.take_over(bucket, "first") is None
    owner.check(bucket, "first")


def test_an_archive_that_lost_its_writer_is_not_written_to(bucket: Bucket) -> None:
    with pytest.raises(Failed, match=r"lacks ramet-owner\.json"):
        owner.check(bucket, "first")
