"""What is left of a pause, whatever the clock does."""

from datetime import UTC, datetime, timedelta

import pytest

from ramet.model.timestamps import time_left

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(("ago", "left"), [(0, 60), (20, 40), (60, 0), (3600, 0)])
def test_a_pause_lasts_until_it_is_over(ago: int, left: int) -> None:
    assert time_left(NOW - timedelta(seconds=ago), timedelta(minutes=1), NOW) == timedelta(seconds=left)


@pytest.mark.parametrize("step", [1, 3600])
def test_a_pause_that_began_before_the_clock_stepped_back_is_over(step: int) -> None:
    assert time_left(NOW + timedelta(seconds=step), timedelta(minutes=1), NOW) == timedelta(0)
