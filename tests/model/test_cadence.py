"""How soon work that took long is repeated."""

from datetime import timedelta

import pytest

from ramet.model.cadence import rest_after


@pytest.mark.parametrize(
    ("seconds", "rest"), [(0.0, 0), (0.3, 0), (1.0, 0), (2.0, 40), (92.0, 1840), (30_000.0, 86_400)]
)
def test_only_what_takes_longer_than_usual_rests_and_takes_a_twentieth_of_the_time(seconds: float, rest: int) -> None:
    assert rest_after(seconds) == timedelta(seconds=rest)
