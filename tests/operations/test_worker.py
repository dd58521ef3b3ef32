"""Workers in threads run every operation once, at once when woken, and continue what another worker was stopped in."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from harness.waiting import BOUND_SECONDS
from ramet.errors import Unavailable
from ramet.model.status import OperationStatus
from ramet.operations import worker as worker_module
from ramet.operations.fifo import FifoListener, ring
from ramet.operations.listener import Listener
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.operations.worker import Worker
from ramet.store import operations
from ramet.store.database import Store
from ramet.store.tables import operation
from tests.operations.effects import STEPS, Host, counting, found, is_over, submitted, writes, written
from tests.stores import open_store


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def test_workers_run_every_step_of_every_operation_once(store: Store, host: Host) -> None:
    workers = [Worker(store, [counting(host)], threads=4) for _ in range(2)]
    for worker in workers:
        worker.start()
    ids = [submitted(store, workers[number % 2].wake) for number in range(40)]
    await_true(lambda: all(is_over(store, operation_id) for operation_id in ids))
    assert all(worker.stop() for worker in workers)
    assert {tuple(written(store, operation_id)) for operation_id in ids} == {STEPS}


@pytest.mark.parametrize("step", ["one", "two"], ids=["first", "after a short one"])
def test_long_steps_leave_threads_to_what_is_short(store: Store, host: Host, step: str) -> None:
    begun, is_over_now = [], threading.Event()

    def copy(work: Work[Any]) -> Outcome:
        begun.append(work.operation_id)
        is_over_now.wait(BOUND_SECONDS)
        return Next("three", changes=writes(work))

    short = replace(counting(host), name="short")
    worker = Worker(store, [counting(host, {step: copy}), short], threads=4, long=frozenset({f"count.{step}"}))
    long_ones = [submitted(store, worker.wake) for _ in range(5)]
    worker.start()
    await_true(lambda: len(begun) == 2)
    with store.write() as tx:
        short_one = operations.submit(tx, "short", "one", "another", {"given": True})
    worker.wake()
    await_true(lambda: is_over(store, short_one))
    await_true(lambda: all(found(store, one).step == step for one in long_ones))
    assert len(begun) == 2
    is_over_now.set()
    await_true(lambda: all(is_over(store, one) for one in long_ones))
    assert worker.stop()


def test_a_long_step_begins_also_where_few_threads_are_free(store: Store, host: Host) -> None:
    begun, is_over_now = threading.Event(), threading.Event()

    def wait(_work: Work[Any]) -> Outcome:
        is_over_now.wait(BOUND_SECONDS)
        return Done()

    def copy(work: Work[Any]) -> Outcome:
        begun.set()
        return Next("two", changes=writes(work))

    short = replace(counting(host, {"one": wait}), name="short")
    worker = Worker(store, [counting(host, {"one": copy}), short], threads=4, long=frozenset({"count.one"}))
    with store.write() as tx:
        for n in range(3):
            operations.submit(tx, "short", "one", f"other {n}", {"given": True})
    worker.start()
    await_true(lambda: worker.count_threads() == (4, 3))
    submitted(store, worker.wake)
    assert begun.wait(BOUND_SECONDS)
    is_over_now.set()
    assert worker.stop()


def test_a_worker_with_more_long_steps_than_it_begins_leases_what_is_short_only(store: Store, host: Host) -> None:
    short = replace(counting(host), name="short")
    worker = Worker(store, [counting(host), short], threads=4, long=frozenset({"count.one"}))
    worker._long = {"a", "b", "c"}
    long_one = submitted(store, worker.wake)
    with store.write() as tx:
        short_one = operations.submit(tx, "short", "one", "another", {"given": True})
    worker._poll(has_new=True)
    assert worker._held == {short_one}
    assert not is_over(store, long_one)


def test_what_is_cancelled_at_a_long_step_is_no_long_one(store: Store, host: Host) -> None:
    worker = Worker(store, [counting(host)], threads=4, long=frozenset({"count.one"}))
    cancelled = submitted(store, worker.wake)
    with store.write() as tx:
        operations.cancel(tx, cancelled)
    worker._poll(has_new=True)
    assert (worker._held, worker._long) == ({cancelled}, set())


def test_a_worker_of_one_thread_runs_long_steps_too(store: Store, host: Host) -> None:
    worker = Worker(store, [counting(host)], threads=1, long=frozenset({"count.one"}))
    worker.start()
    operation_id = submitted(store, worker.wake)
    await_true(lambda: is_over(store, operation_id))
    assert worker.stop()


def test_waking_is_enough_to_be_run_at_once(store: Store, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 3600.0)
    worker = Worker(store, [counting(host, {"two": pausing()})])
    worker.start()
    operation_id = submitted(store, worker.wake)
    await_true(lambda: is_over(store, operation_id))
    worker.stop()


def pausing() -> Callable[[Work[Any]], Outcome]:
    """Return a step that waits once for a short time: the worker must wake up by itself after that."""
    waited: list[str] = []

    def step(work: Work[Any]) -> Outcome:
        if work.operation_id in waited:
            return Next("three", changes=writes(work))
        waited.append(work.operation_id)
        return Wait(0.05)

    return step


def test_without_being_woken_a_worker_finds_what_is_due(store: Store, host: Host) -> None:
    worker = Worker(store, [counting(host)])
    worker.start()
    operation_id = submitted(store)
    await_true(lambda: is_over(store, operation_id))
    worker.stop()


@pytest.fixture
def far(store: Store) -> Iterator[Store]:
    """The store as another process has it open."""
    opened = Store.open(store.engine.url.render_as_string(hide_password=False))
    yield opened
    opened.close()


def test_a_worker_of_another_process_hears_of_a_submission(
    store: Store, far: Store, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 3600.0)
    worker, idle = Worker(far, [counting(host)]), Worker(store, [])
    worker.start()
    first = submitted(store, idle.wake)
    await_true(lambda: is_over(store, first))
    second = submitted(store, idle.wake)
    await_true(lambda: is_over(store, second))
    worker.stop()


def test_a_file_where_the_fifo_should_be_wakes_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(f"sqlite:///{tmp_path}/ramet.db")
    (tmp_path / "ramet.fifo").touch()
    woken: list[None] = []
    listener = FifoListener(store, lambda: woken.append(None))
    listener.start()
    listener.stop()
    assert woken == []
    assert "ramet.fifo is no FIFO" in caplog.text
    store.close()


def test_whoever_rings_waits_for_no_worker(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/ramet.db")
    ring(store)
    listener = FifoListener(store, lambda: None)
    listener.start()
    listener.stop()
    ring(store)
    store.close()


def test_a_deaf_listener_listens_again(postgresql_url: str) -> None:
    store = Store.open(postgresql_url)
    woken = threading.Event()
    listener = Listener(store, woken.set)
    listener.start()
    assert woken.wait(BOUND_SECONDS)
    woken.clear()
    with store.write() as tx:
        others = sa.text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        assert tx.execute(others).all()
    assert woken.wait(BOUND_SECONDS)
    listener.stop()
    store.close()


def test_a_step_that_outlasts_its_lease_keeps_it(store: Store, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 0.05)
    entered, leave = threading.Event(), threading.Event()

    def linger(work: Work[Any]) -> Outcome:
        entered.set()
        assert leave.wait(BOUND_SECONDS)
        return Next("three", changes=writes(work))

    first = Worker(store, [counting(host, {"two": linger})], lease_seconds=1.5)
    second = Worker(store, [counting(host)])
    first.start()
    operation_id = submitted(store, first.wake)
    assert entered.wait(BOUND_SECONDS)
    second.start()
    renewals = count_renewals(store, operation_id, 4)
    leave.set()
    await_true(lambda: is_over(store, operation_id))
    assert first.stop()
    assert second.stop()
    assert renewals == 4
    assert written(store, operation_id) == list(STEPS)


def test_leases_are_renewed_at_the_next_poll_where_the_store_was_away(
    store: Store, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then they would have ended, were the next renewal that of a third of their time later."""
    worker, renewals = Worker(store, [counting(host)], lease_seconds=3600), list[str]()

    def renew(_tx: sa.Connection) -> None:
        renewals.append("renewal")
        if len(renewals) == 1:
            raise Unavailable("STORE_UNAVAILABLE", "The store cannot be reached now")

    monkeypatch.setattr(operations, "cut_leases", renew)
    with pytest.raises(Unavailable):
        worker._poll(False)
    for _ in range(2):
        worker._poll(False)
    assert len(renewals) == 2


def count_renewals(store: Store, operation_id: str, enough: int) -> int:
    """Watch a lease until it was renewed often enough; its time would have been over long before."""
    ends: set[float] = set()

    def renewed() -> bool:
        with store.read() as tx:
            query = sa.select(operation.c.run_at, operation.c.fence).where(operation.c.id == operation_id)
            ends.add(tx.execute(query).one().run_at)
        return len(ends) > enough

    await_true(renewed)
    return len(ends) - 1


def test_many_that_wait_do_not_keep_others_from_running(store: Store, host: Host) -> None:
    def endless(work: Work[Any]) -> Outcome:
        return Wait(0, str(time.monotonic())) if work.subject == "endless" else Next("three", changes=writes(work))

    worker = Worker(store, [counting(host, {"two": endless})], threads=2)
    with store.write() as tx:
        for _ in range(4):
            operations.submit(tx, "count", "two", "endless", {"given": True})
    worker.start()
    operation_id = submitted(store, worker.wake)
    await_true(lambda: is_over(store, operation_id))
    worker.stop()


def test_a_stopped_worker_finishes_its_step_and_the_next_one_continues(store: Store, host: Host) -> None:
    entered, leave = threading.Event(), threading.Event()

    def linger(work: Work[Any]) -> Outcome:
        entered.set()
        assert leave.wait(BOUND_SECONDS)
        return Next("three", changes=writes(work))

    first = Worker(store, [counting(host, {"two": linger})])
    first.start()
    operation_id = submitted(store, first.wake)
    assert entered.wait(BOUND_SECONDS)
    assert not first.stop(drain_seconds=0.05)
    leave.set()
    assert first.stop(BOUND_SECONDS)
    assert written(store, operation_id) == ["one", "two"]
    Worker(store, [counting(host)]).run_until_idle()
    assert written(store, operation_id) == list(STEPS)


def test_a_worker_that_was_never_started_can_be_stopped(store: Store, host: Host) -> None:
    assert Worker(store, [counting(host)]).stop()


@pytest.mark.parametrize("failures", [1, 4])
def test_a_store_that_is_unavailable_for_a_short_time_costs_nothing(
    store: Store, host: Host, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    away = fail_records(monkeypatch, failures)
    operation_id = submitted(store)
    Worker(store, [counting(host)]).run_until_idle()
    assert away == []
    assert written(store, operation_id) == list(STEPS)


def test_after_a_store_was_away_for_long_operations_continue(
    store: Store, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_records(monkeypatch, 5)
    worker = Worker(store, [counting(host)], lease_seconds=3600)
    operation_id = submitted(store)
    worker.start()
    await_true(lambda: is_over(store, operation_id))
    worker.stop()
    assert found(store, operation_id).status is OperationStatus.SUCCEEDED
    assert written(store, operation_id) == list(STEPS)


def fail_records(monkeypatch: pytest.MonkeyPatch, failures: int) -> list[int]:
    """Let so many records fail as though the store were away."""
    left = list(range(failures))
    record = operations.record

    def failing(*arguments: Any, **options: Any) -> operations.Operation:
        if left:
            left.pop()
            raise Unavailable("STORE_UNAVAILABLE", "The store cannot be reached now")
        return record(*arguments, **options)

    monkeypatch.setattr(operations, "record", failing)
    return left


def test_what_a_killed_worker_of_this_host_had_leased_continues_at_once(store: Store, host: Host) -> None:
    killed, next_one = Worker(store, [counting(host)], name="here"), Worker(store, [counting(host)], name="here")
    operation_id = submitted(store)
    assert killed._lease(1)
    next_one.run_until_idle()
    assert not is_over(store, operation_id)
    next_one.take_over()
    next_one.run_until_idle()
    assert is_over(store, operation_id)


def test_what_a_worker_of_another_host_has_leased_is_left_to_it(store: Store, host: Host) -> None:
    far, near = Worker(store, [counting(host)], name="far"), Worker(store, [counting(host)], name="fa")
    operation_id = submitted(store)
    assert far._lease(1)
    near.take_over()
    near.run_until_idle()
    assert not is_over(store, operation_id)
