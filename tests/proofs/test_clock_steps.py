"""The clock is stepped under forks, snapshots and a ledger, and each fork is judged row by row."""

from datetime import UTC, datetime, timedelta

import pytest

from prove import clock
from prove.clock import PLANS, Plan, counts_at
from prove.faketime import library

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = 3600


def commits(*seconds: int) -> list[tuple[int, datetime]]:
    return [(number, NOON + timedelta(seconds=after)) for number, after in enumerate(seconds, start=1)]


@pytest.mark.parametrize(
    ("seconds", "target", "counts"),
    [
        ((0, 1, 2, 3), 1, {2}),
        ((0, 1, 2, 3), 9, {4}),
        ((0, 1, HOUR, HOUR + 1), 30, {2}),  # the clock jumped over the target
        ((0, 1, HOUR, HOUR + 1, 4, 5, 6), 5, {6}),  # it was ahead for a short time: not the rows before that
        ((0, 1, 2, 3, 1, 2, 3), 2, {3, 6}),  # it went back, and showed the target twice
    ],
)
def test_a_target_is_a_time_that_the_clock_showed(seconds: tuple[int, ...], target: int, counts: set[int]) -> None:
    assert counts_at(commits(*seconds), NOON + timedelta(seconds=target)) == counts


@pytest.mark.slow
@pytest.mark.skipif(library() is None, reason="libfaketime is missing")
@pytest.mark.parametrize("plan", [PLANS[3]], ids=lambda plan: plan.title)  # script/prove clock tries all four
def test_forks_hold_what_they_should_when_the_clock_steps(plan: Plan) -> None:
    faults, _ = clock.prove(plan)
    assert faults == []
