"""Claims on periodic duties."""

from concurrent.futures import ThreadPoolExecutor

from ramet.store import duties
from ramet.store.database import Store


def test_a_duty_is_taken_once_a_period(store: Store) -> None:
    assert duties.take(store, "observe", 60)
    assert not duties.take(store, "observe", 60)
    assert duties.take(store, "snapshots", 0)
    assert duties.take(store, "snapshots", 0)


def test_of_many_that_claim_a_duty_at_once_one_gets_it(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        for name in ("a", "b", "c"):
            taken = list(pool.map(lambda _, name=name: duties.take(store, name, 60), range(8)))
            assert taken.count(True) == 1
