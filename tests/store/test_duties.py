"""Claims on periodic duties."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from ramet.store import duties
from ramet.store.database import Store
from tests.stores import step_clock_back


def test_a_duty_is_taken_once_a_period(store: Store) -> None:
    assert duties.take(store, "observe", 60)
    assert not duties.take(store, "observe", 60)
    assert duties.take(store, "snapshots", 0)
    assert duties.take(store, "snapshots", 0)


def test_only_one_of_many_that_claim_a_duty_at_once_gets_it(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        for name in ("a", "b", "c"):
            taken = list(pool.map(lambda _, name=name: duties.take(store, name, 60), range(8)))
            assert taken.count(True) == 1


@pytest.mark.parametrize("step_seconds", [61, 86_400])
def test_a_duty_is_due_when_the_clock_has_stepped_back(store: Store, step_seconds: float) -> None:
    assert duties.take(store, "observe", 60)
    step_clock_back(store, step_seconds)
    with store.read() as tx:
        assert duties.seconds_until_due(tx, "observe", 60) == 0
    assert duties.take(store, "observe", 60)
    assert not duties.take(store, "observe", 60)


def test_a_small_step_delays_a_duty_by_less_than_its_period(store: Store) -> None:
    assert duties.take(store, "observe", 60)
    step_clock_back(store, 30)
    with store.read() as tx:
        assert duties.seconds_until_due(tx, "observe", 60) <= 60
