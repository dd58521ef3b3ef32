"""Which steps of the wall clock retention follows, and when."""

import pytest

from ramet.model.trusted_time import CONFIRMED_SECONDS, Reading, Trust, follow

HOUR, DAY = 3600.0, 86_400.0
NOON = 1_795_000_000.0


def reading(passed: float, ahead: float = 0.0, boot: str = "a") -> Reading:
    return Reading(boot, 1000.0 + passed, NOON + passed + ahead)


def followed(*readings: Reading) -> Trust:
    trust = Trust(reading(0))
    for one in readings:
        trust = follow(trust, one)
    return trust


def test_time_that_passes_is_trusted_however_seldom_it_is_looked_at() -> None:
    assert followed(reading(1), reading(7 * DAY)).wall_seconds == NOON + 7 * DAY


@pytest.mark.parametrize("step", [120.0, HOUR, 365 * DAY])
def test_a_step_forward_is_not_trusted_until_the_host_has_run_for_a_day(step: float) -> None:
    assert followed(reading(60, step)).wall_seconds == NOON + 60
    assert followed(reading(60, step), reading(20 * HOUR, step)).wall_seconds == NOON + 20 * HOUR
    later = CONFIRMED_SECONDS + 61
    assert followed(reading(60, step), reading(later, step)).wall_seconds == NOON + later + step


def test_a_step_forward_that_is_taken_back_leaves_nothing() -> None:
    trust = followed(reading(60, HOUR), reading(120, HOUR), reading(180))
    assert (trust.wall_seconds, trust.steps) == (NOON + 180, ())


def test_a_step_that_is_taken_back_in_part_is_less_by_that() -> None:
    trust = followed(reading(60, 3 * HOUR), reading(120, HOUR))
    assert trust.wall_seconds == NOON + 120


def test_a_clock_that_goes_back_is_followed_at_once() -> None:
    assert followed(reading(60, -HOUR)).wall_seconds == NOON + 60 - HOUR


def test_a_clock_that_drifts_is_trusted() -> None:
    assert followed(*(reading(hours * HOUR, hours) for hours in range(100))).steps == ()


def test_the_time_in_which_a_host_was_down_counts_after_it_has_run_for_a_day() -> None:
    def up(seconds: float) -> Reading:
        return Reading("b", seconds, NOON + 7 * DAY + seconds)

    assert followed(up(60)).wall_seconds == NOON + 60
    assert followed(up(60), up(CONFIRMED_SECONDS + 61)).wall_seconds == NOON + 8 * DAY + 61


def test_a_host_that_is_switched_off_each_night_is_never_further_behind_than_a_few_nights() -> None:
    trust = Trust(reading(0))
    for day in range(60):
        for hours in range(9):
            trust = follow(trust, Reading(f"day {day}", hours * HOUR + 60, NOON + day * DAY + hours * HOUR + 60))
    assert trust.reading.wall_seconds - trust.wall_seconds <= 4 * DAY
