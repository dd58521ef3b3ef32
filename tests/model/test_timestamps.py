"""Times as clients write them, and what is left of a pause, whatever the clock does."""

from datetime import UTC, datetime, timedelta

import pytest

from ramet.errors import Invalid
from ramet.model.timestamps import parse_timestamp, time_left

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(("ago", "left"), [(0, 60), (20, 40), (60, 0), (3600, 0)])
def test_a_pause_lasts_until_it_is_over(ago: int, left: int) -> None:
    assert time_left(NOW - timedelta(seconds=ago), timedelta(minutes=1), NOW) == timedelta(seconds=left)


@pytest.mark.parametrize("step", [1, 3600])
def test_a_pause_that_began_before_the_clock_stepped_back_is_over(step: int) -> None:
    assert time_left(NOW + timedelta(seconds=step), timedelta(minutes=1), NOW) == timedelta(0)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-21T12:00:00Z", NOW),
        ("2026-11-21t12:00:00z", NOW),
        ("2026-11-21T17:30:00+05:30", NOW),
        ("2026-11-21T12:00:00.25Z", NOW + timedelta(milliseconds=250)),
        ("2026-11-21T12:00:00.1234569Z", NOW + timedelta(microseconds=123456)),
    ],
)
def test_a_time_is_read_in_utc_to_the_microsecond(text: str, time: datetime) -> None:
    read = parse_timestamp("target_time", text)
    assert (read, read.tzinfo) == (time, UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-21T12:00:00", "2026-11-31T12:00:00Z"])
def test_a_time_that_cannot_be_read_is_refused_with_its_field_and_a_remedy(text: str) -> None:
    with pytest.raises(Invalid, match=r"^target_time ") as refusal:
        parse_timestamp("target_time", text)
    assert refusal.value.code == "INVALID_TARGET_TIME"
    assert refusal.value.details
