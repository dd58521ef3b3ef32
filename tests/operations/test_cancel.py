"""An operation that is canceled is undone at the next boundary between its steps."""

from typing import Any

from ramet.model.status import OperationStatus
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.operations.worker import Worker
from ramet.store import operations
from ramet.store.database import Store
from tests.operations.effects import Host, counting, found, submitted, written

CANCELED = ["undoing: It was canceled.", "failed: It was canceled."]


def cancel(store: Store, operation_id: str) -> bool:
    with store.write() as tx:
        return operations.cancel(tx, operation_id)


def test_before_its_first_step_nothing_is_done(store: Store, host: Host) -> None:
    operation_id = submitted(store)
    assert cancel(store, operation_id)
    Worker(store, [counting(host)]).run_until_idle()
    assert found(store, operation_id).status is OperationStatus.FAILED
    assert written(store, operation_id) == CANCELED
    assert host.marks == []


def test_during_a_step_that_is_finished_and_then_undone(store: Store, host: Host) -> None:
    def step(work: Work[Any]) -> Outcome:
        host.mark(work)
        cancel(store, work.operation_id)
        return Next("three")

    operation_id = submitted(store)
    Worker(store, [counting(host, {"two": step})]).run_until_idle()
    assert written(store, operation_id) == ["one", *CANCELED]
    assert host.marks == []


def test_while_it_waits_long_it_is_undone_at_once(store: Store, host: Host) -> None:
    operation_id = submitted(store)
    worker = Worker(store, [counting(host, {"two": lambda _: Wait(3600)})])
    worker.run_until_idle()
    cancel(store, operation_id)
    worker.run_until_idle()
    assert written(store, operation_id) == ["one", *CANCELED]


def test_during_a_step_that_wants_to_wait_it_is_undone_without_the_wait(store: Store, host: Host) -> None:
    def step(work: Work[Any]) -> Outcome:
        cancel(store, work.operation_id)
        return Wait(3600)

    operation_id = submitted(store)
    Worker(store, [counting(host, {"one": step})]).run_until_idle()
    assert found(store, operation_id).status is OperationStatus.FAILED


def test_during_its_last_step_it_is_too_late(store: Store, host: Host) -> None:
    def step(work: Work[Any]) -> Outcome:
        cancel(store, work.operation_id)
        return Done()

    operation_id = submitted(store)
    Worker(store, [counting(host, {"three": step})]).run_until_idle()
    assert found(store, operation_id).status is OperationStatus.SUCCEEDED
    assert not cancel(store, operation_id)
    assert len(host.marks) == 2


def test_while_it_is_being_undone_nothing_changes(store: Store, host: Host) -> None:
    said: list[bool] = []

    def undo(work: Work[Any]) -> None:
        said.append(cancel(store, work.operation_id))

    operation_id = submitted(store)
    worker = Worker(store, [counting(host, {"two": lambda _: Wait(3600)}, {"two": undo})])
    worker.run_until_idle()
    cancel(store, operation_id)
    worker.run_until_idle()
    assert said == [False]
    assert written(store, operation_id) == ["one", *CANCELED]
