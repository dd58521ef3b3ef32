"""What each outcome, error and undo of a step leads to."""

import logging
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from harness.waiting import eventually
from ramet.errors import Exhausted, Failed, Invalid, Unseen
from ramet.model.progress import with_warning
from ramet.model.status import OperationStatus
from ramet.operations import transitions
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Wait, Work
from ramet.operations.transitions import MAX_ATTEMPTS
from ramet.operations.worker import Worker
from ramet.store.database import Store
from ramet.store.tables import operation
from tests.operations.effects import (
    STEPS,
    Counts,
    Host,
    counting,
    found,
    history,
    submitted,
    writes,
    written,
)


def run(store: Store, procedure: Procedure) -> str:
    operation_id = submitted(store)
    Worker(store, [procedure]).run_until_idle()
    return operation_id


def hopeless(_work: Work[Any]) -> Outcome:
    raise Failed("DISK_GONE", "The disk is gone")


def test_a_step_that_ran_out_of_time_says_so_in_a_sentence(store: Store, host: Host) -> None:
    def give_up(_work: Work[Any]) -> Outcome:
        raise TimeoutError

    operation_id = run(store, counting(host, {"two": give_up}))
    error = found(store, operation_id).error or ""
    assert "did not come in time" in error
    assert "TimeoutError" not in error


def test_steps_run_in_order_each_once_and_merge_their_state(store: Store, host: Host) -> None:
    operation_id = run(store, counting(host))
    done = found(store, operation_id)
    assert done.status is OperationStatus.SUCCEEDED
    assert done.state == {"given": True, "one": 1, "two": 1, "three": 1}
    assert written(store, operation_id) == list(STEPS)
    assert history(store, operation_id) == [(step, "DONE") for step in STEPS]
    assert done.finished_at is not None
    assert done.created_at <= done.finished_at


def test_a_step_sees_its_operation(store: Store, host: Host) -> None:
    seen: list[Work[Any]] = []

    def look(work: Work[Any]) -> Outcome:
        seen.append(work)
        return Done()

    before = datetime.now(UTC)
    operation_id = run(store, counting(host, {"two": look}))
    (work,) = seen
    assert (work.operation_id, work.subject, work.step) == (operation_id, "subject", "two")
    assert (work.attempt, work.state) == (1, Counts(given=True, one=1))
    assert before.timestamp() - 1 < work.step_started_at.timestamp() < time.time() + 1


def test_an_error_is_tried_again_until_the_step_succeeds(store: Store, host: Host, swift: None) -> None:
    attempts: list[int] = []

    def stumble(work: Work[Any]) -> Outcome:
        attempts.append(work.attempt)
        if work.attempt < 3:
            raise OSError("not yet")
        return Next("three", changes=writes(work))

    operation_id = run(store, counting(host, {"two": stumble}))
    assert attempts == [1, 2, 3]
    assert written(store, operation_id) == list(STEPS)
    assert found(store, operation_id).error is None
    assert history(store, operation_id).count(("two", "RETRIED")) == 2


def test_a_step_that_fails_too_often_is_undone_with_all_before_it_in_reverse(
    store: Store, host: Host, swift: None
) -> None:
    def stumble(work: Work[Any]) -> Outcome:
        host.mark(work)
        raise OSError("always")

    operation_id = run(store, counting(host, {"two": stumble}))
    failed = found(store, operation_id)
    assert (failed.status, failed.error) == (OperationStatus.FAILED, "OSError: always")
    assert host.undone == ["two", "one"]
    assert host.marks == []
    assert written(store, operation_id) == ["one", "undoing: OSError: always", "failed: OSError: always"]
    assert history(store, operation_id)[1:] == [
        *[("two", "RETRIED")] * (MAX_ATTEMPTS - 1),
        ("two", "ABANDONED"),
        ("two", "UNDONE"),
        ("one", "UNDONE"),
    ]


@pytest.mark.parametrize("kind", [Failed, Invalid, Exhausted])
def test_an_error_that_repeating_cannot_help_is_undone_at_once(
    store: Store, host: Host, kind: type[Failed | Invalid | Exhausted]
) -> None:
    def fail(_work: Work[Any]) -> Outcome:
        raise kind("NO_WAY", "It cannot be.", "Do something else.")

    operation_id = run(store, counting(host, {"one": fail}))
    assert found(store, operation_id).error == "It cannot be: Do something else."
    assert host.undone == ["one"]


def test_a_procedure_without_undos_fails_at_once_with_both_endings(store: Store, host: Host) -> None:
    bare = replace(counting(host, {"one": hopeless}), undo={})
    operation_id = run(store, bare)
    assert found(store, operation_id).status is OperationStatus.FAILED
    assert written(store, operation_id) == ["undoing: The disk is gone", "failed: The disk is gone"]


def test_an_undo_is_tried_until_it_succeeds_and_the_cause_is_kept(store: Store, host: Host, swift: None) -> None:
    attempts: list[int] = []

    def stumble(work: Work[Any]) -> None:
        attempts.append(work.attempt)
        if len(attempts) < MAX_ATTEMPTS + 5:
            raise Failed("BUSY", "The mount is busy")
        host.unmark(work)

    operation_id = run(store, counting(host, {"two": hopeless}, {"one": stumble}))
    failed = found(store, operation_id)
    assert (failed.status, failed.error) == (OperationStatus.FAILED, "The disk is gone")
    assert len(attempts) == MAX_ATTEMPTS + 5
    assert host.marks == []
    assert history(store, operation_id).count(("one", "UNDO_RETRIED")) == MAX_ATTEMPTS


def test_waiting_ends_when_what_is_waited_for_comes(store: Store, host: Host) -> None:
    looks: list[int] = []

    def watch(work: Work[Any]) -> Outcome:
        looks.append(work.attempt)
        return Wait(0.001 * (len(looks) % 2), f"at {len(looks)}") if len(looks) < 5 else Next("three")

    operation_id = run(store, counting(host, {"two": watch}, deadline=5))
    assert found(store, operation_id).status is OperationStatus.SUCCEEDED
    assert looks == [1] * 5
    assert ("two", "DONE") in history(store, operation_id)
    assert len(history(store, operation_id)) == 3


def test_a_wait_without_progress_fails_with_what_it_waited_for(store: Store, host: Host) -> None:
    operation_id = run(store, counting(host, {"two": lambda _: Wait(0, "redo at 0/3000028")}, deadline=0.001))
    failed = found(store, operation_id)
    assert failed.status is OperationStatus.FAILED
    assert failed.error == "Step two made no progress for 0.001 s: redo at 0/3000028."
    assert host.marks == []


def test_a_wait_without_progress_fails_although_what_is_warned_of_changes(store: Store, host: Host) -> None:
    looks = count()

    def stall(_work: Work[Any]) -> Outcome:
        said = with_warning("the pod is new", f"quota exceeded by pod {n}") if (n := next(looks)) < 1000 else None
        return Next("three") if said is None else Wait(0.001, said)

    operation_id = run(store, counting(host, {"two": stall}, deadline=0.05))
    assert found(store, operation_id).status is OperationStatus.FAILED


def test_a_step_that_cannot_look_waits_until_it_can_and_not_for_longer_than_its_deadline(
    store: Store, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transitions, "_UNSEEN_PAUSE_SECONDS", 0.001)
    looks = count()

    def look(_work: Work[Any]) -> Outcome:
        if (n := next(looks)) < 3 * MAX_ATTEMPTS:
            raise Unseen("CANNOT_LOOK", f"The API server did not answer about pod {n}")
        return Next("three")

    operation_id = run(store, counting(host, {"two": look}))
    assert found(store, operation_id).status is OperationStatus.SUCCEEDED
    looks = count()
    operation_id = run(store, counting(host, {"two": look}, deadline=0.005))
    failed = found(store, operation_id)
    assert failed.status is OperationStatus.FAILED
    assert "cannot be seen how far this is. Warning: The API server did not answer" in str(failed.error)


def test_a_clock_that_steps_during_a_wait_takes_nothing_from_its_deadline(
    store: Store, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Work[Any]] = []

    def watch(work: Work[Any]) -> Outcome:
        looks.append(work)
        monkeypatch.setattr(time, "time", lambda: stepped_time(work, 3600.0 * (-1) ** len(looks)))
        return Wait(0, "redo at 0/3000028") if len(looks) < 5 else Next("three")

    operation_id = run(store, counting(host, {"two": watch}, deadline=60))
    assert found(store, operation_id).status is OperationStatus.SUCCEEDED
    assert len(looks) == 5


def stepped_time(work: Work[Any], seconds: float) -> float:
    return work.created_at.timestamp() + seconds


def test_a_wait_with_progress_may_last_longer_than_the_deadline(store: Store, host: Host) -> None:
    begun = time.monotonic()
    looks: list[int] = []

    def watch(_work: Work[Any]) -> Outcome:
        looks.append(1)
        return Wait(0, str(len(looks))) if time.monotonic() < begun + 0.6 else Next("three")

    operation_id = run(store, counting(host, {"two": watch}, deadline=0.2))
    assert found(store, operation_id).status is OperationStatus.SUCCEEDED


def test_row_changes_that_fail_leave_nothing_and_are_tried_again_with_their_step(
    store: Store, host: Host, swift: None
) -> None:
    tries: list[int] = []

    def change(tx: sa.Connection, work: Work[Any]) -> None:
        writes(work)(tx)
        tries.append(1)
        if len(tries) < 3:
            raise LookupError("a row is missing")

    step = {"two": lambda work: Next("three", changes=lambda tx: change(tx, work))}
    operation_id = run(store, counting(host, step))
    assert len(tries) == 3
    assert written(store, operation_id) == list(STEPS)


def test_the_rows_that_a_step_changes_are_flushed_before_the_next_step(tmp_path: Path, host: Host) -> None:
    store, flushes = Store.open(f"sqlite:///{tmp_path}/ramet.db"), []

    def look(tx: sa.Connection) -> None:
        flushes.append(tx.scalar(sa.text("PRAGMA synchronous")))

    operation_id = submitted(store)
    steps = {"one": lambda _: Next("two", changes=look), "two": lambda _: Next("three", changes=look)}
    Worker(store, [counting(host, {**steps, "three": lambda _: Done(changes=look)})]).run_until_idle()
    assert found(store, operation_id).status is OperationStatus.SUCCEEDED
    store.close()
    full = 2
    assert flushes == [full] * 3


def test_a_step_that_kills_its_worker_each_time_is_given_up(store: Store, host: Host) -> None:
    class Killed(BaseException):
        pass

    def kill(_work: Work[Any]) -> Outcome:
        raise Killed

    operation_id = submitted(store)
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(Killed):
            Worker(store, [counting(host, {"two": kill})]).run_until_idle()
        with store.write() as tx:
            tx.execute(operation.update().values(run_at=0.0))
    Worker(store, [counting(host, {"two": kill})]).run_until_idle()
    failed = found(store, operation_id)
    assert failed.status is OperationStatus.FAILED
    assert failed.error == f"Step two was interrupted {MAX_ATTEMPTS} times."
    assert host.marks == []


def test_an_unknown_step_is_left_alone_and_said_once(
    store: Store, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    operation_id = run(store, counting(host, {"one": lambda _: Next("teleport")}))
    before = found(store, operation_id)
    worker = Worker(store, [counting(host)], lease_seconds=0.03)
    worker.start()
    eventually(lambda: caplog.records != [])
    other = submitted(store, worker.wake)
    eventually(lambda: found(store, other).status is not OperationStatus.RUNNING)
    worker.stop()
    assert [record.getMessage() for record in caplog.records] == [
        f"operation {operation_id} does not run: this version has no step count.teleport"
    ]
    assert found(store, operation_id) == before
    newer = counting(host, {"teleport": lambda work: Done(changes=writes(work))})
    Worker(store, [newer]).run_until_idle()
    assert written(store, operation_id) == ["teleport"]
