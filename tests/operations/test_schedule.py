"""Periodic duties: done again and again, by one process at a time, whatever they raise."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from harness.waiting import BOUND_SECONDS
from ramet.operations import schedule as schedule_module
from ramet.operations.schedule import Duty, Schedule
from ramet.store import duties
from ramet.store.database import Store
from tests.stores import step_clock_back


def test_duties_are_done_again_and_again_also_after_one_failed(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []
    enough = threading.Event()

    def note(name: str) -> None:
        done.append(name)
        if done.count("work") >= 3 and done.count("fail") >= 2:
            enough.set()

    def work() -> None:
        note("work")

    def fail() -> None:
        note("fail")
        raise LookupError("nothing there")

    schedule = Schedule(store, [Duty("fail", 0.02, fail), Duty("work", 0.02, work)])
    schedule.start()
    assert enough.wait(BOUND_SECONDS)
    schedule.stop()
    assert any("duty fail failed" in record.getMessage() for record in caplog.records)


def test_a_duty_that_cannot_be_looked_up_is_looked_up_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    done, take, faults = threading.Event(), duties.take, iter([RuntimeError("no descriptor left")])

    def fail_once(*arguments: Any, **how: Any) -> bool:
        for fault in faults:
            raise fault
        return take(*arguments, **how)

    monkeypatch.setattr(duties, "take", fail_once)
    schedule = Schedule(store, [Duty("work", 0.02, done.set)])
    schedule.start()
    assert done.wait(BOUND_SECONDS)
    schedule.stop()
    assert any("duty work could not be looked up" in record.getMessage() for record in caplog.records)


def test_a_slow_duty_keeps_no_other_from_being_done(store: Store) -> None:
    finish, done = threading.Event(), threading.Event()

    def linger() -> None:
        finish.wait(BOUND_SECONDS)

    schedule = Schedule(store, [Duty("slow", 0.01, linger), Duty("quick", 0.01, done.set)])
    schedule.start()
    assert done.wait(BOUND_SECONDS)
    finish.set()
    schedule.stop()


def test_of_several_processes_one_does_a_duty_in_a_period(store: Store, url: str) -> None:
    done: list[str] = []
    stores = [Store.open(url) for _ in range(3)]
    schedules = [Schedule(each, [Duty("observe", 3600, lambda: done.append("observe"))]) for each in stores]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(Schedule.perform_due, schedules))
    assert done == ["observe"]
    for each in stores:
        each.close()


def test_a_process_keeps_a_short_duty_for_some_seconds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    done, taken, take = threading.Semaphore(0), [], duties.take

    def note(*arguments: Any, **how: Any) -> bool:
        taken.append(arguments[1])
        return take(*arguments, **how)

    monkeypatch.setattr(duties, "take", note)
    monkeypatch.setattr(schedule_module, "_HELD_SECONDS", BOUND_SECONDS)
    schedule = Schedule(store, [Duty("observe", 0.01, done.release)])
    schedule.start()
    for _ in range(10):
        assert done.acquire(timeout=BOUND_SECONDS)
    schedule.stop()
    assert taken == ["observe"]


def test_what_an_earlier_process_has_kept_is_due_at_the_next_start(store: Store) -> None:
    """Unless the store is one of several hosts."""
    done: list[str] = []
    planned = [Duty(name, seconds, partial(done.append, name)) for name, seconds in (("short", 1.0), ("long", 3600.0))]
    Schedule(store, planned).perform_due()
    again = Schedule(store, planned)
    again.perform_due()
    assert done == ["short", "long"]
    again.take_over()
    again.perform_due()
    assert done == (["short", "long"] if store.is_postgresql else ["short", "long", "short"])


def test_what_was_done_before_the_start_is_done_again_when_it_is_due(store: Store) -> None:
    done: list[str] = []
    planned = [Duty(name, seconds, partial(done.append, name)) for name, seconds in (("short", 1.0), ("long", 3600.0))]
    schedule = Schedule(store, planned)
    schedule.perform_due()
    for duty in planned:
        assert 0 < schedule._perform_if_due(duty) <= duty.seconds
    assert done == ["short", "long"]


def test_duties_continue_when_the_clock_steps_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Semaphore(0)
    monkeypatch.setattr(schedule_module, "_HELD_SECONDS", 0.0)
    schedule = Schedule(store, [Duty("observe", 0.05, done.release)])
    schedule.start()
    assert done.acquire(timeout=BOUND_SECONDS)
    step_clock_back(store, 3600)
    for _ in range(10):
        assert done.acquire(timeout=BOUND_SECONDS)
    schedule.stop()


def test_stopping_does_not_wait_for_the_next_time(store: Store) -> None:
    schedule = Schedule(store, [Duty("yearly", 3.2e7, lambda: None)])
    schedule.start()
    schedule.stop(BOUND_SECONDS)
    assert "duty-yearly" not in {thread.name for thread in threading.enumerate()}


def test_all_duties_that_do_not_end_are_waited_for_together(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now, finish, begun = [0.0], threading.Event(), threading.Semaphore(0)

    def linger() -> None:
        begun.release()
        finish.wait(BOUND_SECONDS)

    def join(_: threading.Thread, timeout: float) -> None:
        now[0] += timeout

    schedule = Schedule(store, [Duty(name, 3600, linger) for name in ("one", "other", "third")])
    schedule.start()
    for _ in range(3):
        assert begun.acquire(timeout=BOUND_SECONDS)
    with monkeypatch.context() as patched:
        patched.setattr(schedule_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
        patched.setattr(threading.Thread, "join", join)
        schedule.stop(10)
    finish.set()
    schedule.stop(BOUND_SECONDS)
    assert now == [10]
