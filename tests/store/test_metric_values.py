"""One value of many samples, thinned to as many as a picture shows."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from harness.waiting import eventually
from ramet.model.metrics import Sample, Usage
from ramet.store import metrics
from ramet.store.database import Store
from ramet.store.tables import last_usage
from tests.beside import count_waiting
from tests.store.values import NOW

_START = NOW.replace(second=0, microsecond=0)


def test_the_last_value_of_each_part_is_listed_oldest_first(store: Store) -> None:
    with store.write() as tx:
        for number in range(12):
            values = {"wal": float(number), "other": 1.0} if number != 7 else {"other": 1.0}
            metrics.insert_samples(tx, {"shop000000": Sample(_START + timedelta(seconds=10 * number), values)})
        metrics.insert_samples(tx, {"blog000000": Sample(_START, {"wal": 99.0})})
    with store.read() as tx:
        end = _START + timedelta(seconds=110)
        listed = metrics.list_values(tx, "shop000000", "wal", _START, end, timedelta(seconds=30))
        assert listed == [(_START + timedelta(seconds=10 * n), float(n)) for n in (2, 5, 8, 11)]
        whole = metrics.list_values(tx, "shop000000", "wal", _START, end, timedelta(seconds=1))
        assert [value for _, value in whole] == [float(n) for n in range(12) if n != 7]
        thinned = metrics.list_samples(tx, "shop000000", _START, end, timedelta(seconds=30))
        assert [sample.values.get("wal") for sample in thinned] == [2.0, 5.0, 8.0, 10.0]


def test_the_last_sample_with_a_value_is_found_however_old_it_is(store: Store) -> None:
    with store.write() as tx:
        for days, values in ((0, {"wal;node=0": 1.0}), (1, {"wal;node=0": 2.0, "other": 0.0}), (20, {"other": 3.0})):
            metrics.insert_samples(tx, {"shop000000": Sample(_START + timedelta(days=days), values)})
        metrics.insert_samples(tx, {"blog000000": Sample(_START + timedelta(days=20), {"wal;node=1": 4.0})})
    with store.read() as tx:
        found = metrics.last_sample_with(tx, "shop000000", "wal;node=0")
        assert found == Sample(_START + timedelta(days=1), {"wal;node=0": 2.0, "other": 0.0})
        assert metrics.last_sample_with(tx, "shop000000", "wal;node=1") is None


def test_samples_of_before_the_clock_was_set_back_make_room_for_those_after_it(store: Store) -> None:
    with store.write() as tx:
        for subject, seconds in (("shop000000", (0, 3600, 3660, 30)), ("blog000000", (3600,))):
            for each in seconds:
                taken = Sample(_START + timedelta(seconds=each), {"wal": float(each)})
                metrics.insert_samples(tx, {subject: taken})
    with store.read() as tx:
        listed = {
            subject: [
                one.values["wal"] for one in metrics.list_samples(tx, subject, _START, _START + timedelta(days=1))
            ]
            for subject in ("shop000000", "blog000000")
        }
    assert listed == {"shop000000": [0.0, 30.0], "blog000000": [3600.0]}


@pytest.mark.servers
def test_usage_and_own_space_of_the_same_services_are_recorded_at_once(postgresql_url: str) -> None:
    blog, shop = "blog000000", "shop000000"
    with contextlib.closing(Store.open(postgresql_url)) as store, ThreadPoolExecutor(2) as pool:

        def put_usage() -> None:
            with store.write() as tx:
                metrics.put_usage(tx, {shop: Usage(1, 2, 3), blog: Usage(1, 2, 3)}, NOW)

        def put_own_space() -> None:
            with store.write() as tx:
                metrics.put_own_space(tx, {blog: 7, shop: 7}, NOW)

        put_usage()
        acts = []
        with store.engine.begin() as other:
            other.execute(last_usage.select().where(last_usage.c.subject == shop).with_for_update())
            for act in (put_usage, put_own_space):
                acts.append(pool.submit(act))
                eventually(lambda: count_waiting(store) == len(acts))
        for begun in acts:
            begun.result()
