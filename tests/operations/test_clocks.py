"""A worker whose clock differs from that of the store: PostgreSQL's, on another host."""

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from ramet.operations.procedure import Next, Outcome, Wait, Work
from ramet.operations.worker import Worker
from ramet.store import operations
from ramet.store.database import Store, epoch_seconds
from tests.operations.effects import Host, counting, found, make_table, submitted

_AHEAD_SECONDS = 3600.0

pytestmark = pytest.mark.servers


@pytest.fixture
def store(postgresql_url: str) -> Iterator[Store]:
    with closing(Store.open(postgresql_url)) as opened:
        make_table(opened)
        yield opened


def test_steps_begin_by_the_clock_of_the_store_and_are_seen_by_that_of_the_worker(
    store: Store, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    actual = time.time
    monkeypatch.setattr(time, "time", lambda: actual() + _AHEAD_SECONDS)
    ages, stored = list[float](), list[float]()

    def look(work: Work[Any]) -> Outcome:
        with store.read() as tx:
            stored.append(epoch_seconds(tx) - found(store, work.operation_id).step_started_at)
        ages.append((datetime.fromtimestamp(time.time(), UTC) - work.step_started_at).total_seconds())
        return Wait(0.01, f"{len(ages)}") if len(ages) % 2 else Next("two" if work.step == "one" else "three")

    operation_id = submitted(store)
    Worker(store, [counting(host, {"one": look, "two": look})]).run_until_idle()
    with store.read() as tx:
        events = operations.events_of(tx, [operation_id])[operation_id]
    assert [event.step for event in events] == ["one", "two", "three"]
    seconds = [event.seconds for event in events]
    assert len(ages) == len(stored) == 4
    assert max(map(abs, (*ages, *stored, *seconds))) < _AHEAD_SECONDS / 2


@pytest.mark.parametrize("by_seconds", [_AHEAD_SECONDS, -_AHEAD_SECONDS])
def test_a_clock_that_steps_within_a_step_changes_nothing_for_the_next_one(
    store: Store, host: Host, monkeypatch: pytest.MonkeyPatch, by_seconds: float
) -> None:
    actual, ahead, ages = time.time, [0.0], list[float]()
    monkeypatch.setattr(time, "time", lambda: actual() + sum(ahead))

    def set_clock(_work: Work[Any]) -> Outcome:
        ahead.append(by_seconds)
        return Next("two")

    def look(work: Work[Any]) -> Outcome:
        ages.append((datetime.fromtimestamp(time.time(), UTC) - work.step_started_at).total_seconds())
        return Next("three")

    submitted(store)
    Worker(store, [counting(host, {"one": set_clock, "two": look})]).run_until_idle()
    assert len(ages) == 1
    assert abs(ages[0]) < _AHEAD_SECONDS / 2
