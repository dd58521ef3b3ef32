"""Operations as rows: who may lease what, and when."""

from dataclasses import replace

import pytest

from ramet.model.procedures import ProcedureName
from ramet.model.status import OperationStatus
from ramet.store import operations, services
from ramet.store.database import Store
from ramet.store.due import Known
from ramet.store.operations import LeaseLost, Operation, submit
from ramet.store.tables import operation
from tests.store.values import a_project, a_service
from tests.stores import step_clock_back

KNOWN = Known(frozenset({"fork.capture", "fork.recover"}), frozenset({"fork.capture"}))


def submitted(store: Store, procedure: str = "fork", step: str = "capture") -> str:
    with store.write() as tx:
        return submit(tx, procedure, step, "subject", {"a": [1, None, "é"]})


def lease(store: Store, seconds: float = 30, worker: str = "one", held: tuple[str, ...] = ()) -> list[Operation]:
    with store.write() as tx:
        return operations.lease(tx, worker, KNOWN, seconds, 10, held)


def record(store: Store, after: Operation, worker: str | None = None, seconds: float = 0) -> Operation:
    with store.write() as tx:
        return operations.record(tx, after, worker, seconds)


def test_a_submitted_operation_is_leased_once_with_its_state(store: Store) -> None:
    operation_id = submitted(store)
    found = lease(store)
    assert [(o.id, o.procedure, o.step, o.subject, o.attempt) for o in found] == [
        (operation_id, "fork", "capture", "subject", 1)
    ]
    assert found[0].state == {"a": [1, None, "é"]}
    assert lease(store, worker="two") == []


def test_a_lease_that_ran_out_is_given_to_another_and_the_first_can_record_nothing(store: Store) -> None:
    submitted(store)
    first = lease(store, seconds=-1)[0]
    second = lease(store, worker="two")[0]
    assert (second.attempt, second.fence) == (2, first.fence + 1)
    with pytest.raises(LeaseLost):
        record(store, replace(first, status=OperationStatus.SUCCEEDED))
    assert record(store, replace(second, step="recover"), "two", 30).step == "recover"


def test_the_same_outcome_cannot_be_recorded_twice(store: Store) -> None:
    submitted(store)
    leased = lease(store)[0]
    record(store, replace(leased, step="recover"), "one", 30)
    with pytest.raises(LeaseLost):
        record(store, replace(leased, step="recover"), "one", 30)


def test_a_worker_is_not_given_what_it_has_at_work_already(store: Store) -> None:
    submitted(store)
    at_work = lease(store, seconds=-1)[0]
    assert lease(store, held=(at_work.id,)) == []


def test_a_renewed_lease_lasts_and_that_of_another_worker_is_not_renewed(store: Store) -> None:
    submitted(store)
    leased = lease(store, seconds=-1)[0]
    with store.write() as tx:
        operations.renew(tx, "two", [leased.id], 30)
        due_in = operations.seconds_until_due(tx, KNOWN)
        assert due_in is not None
        assert due_in <= 0
        operations.renew(tx, "one", [leased.id], 30)
    assert lease(store, worker="two") == []


def test_an_operation_rests_for_the_time_it_asked_for(store: Store) -> None:
    submitted(store)
    record(store, lease(store)[0], None, 60)
    assert lease(store) == []
    with store.read() as tx:
        due_in = operations.seconds_until_due(tx, KNOWN)
    assert due_in is not None
    assert 50 < due_in <= 60


def test_calling_off_makes_a_resting_operation_due_and_a_finished_one_stays_finished(store: Store) -> None:
    operation_id = submitted(store)
    resting = record(store, lease(store)[0], None, 60)
    with store.write() as tx:
        assert operations.cancel(tx, operation_id)
    leased = lease(store)[0]
    assert leased.cancelled
    record(store, replace(leased, status=OperationStatus.SUCCEEDED))
    with store.write() as tx:
        assert not operations.cancel(tx, resting.id)
        assert not operations.is_under_way(tx, operation_id)


def test_calling_off_does_not_break_a_lease_and_is_seen_at_the_next_record(store: Store) -> None:
    operation_id = submitted(store)
    leased = lease(store)[0]
    with store.write() as tx:
        operations.cancel(tx, operation_id)
    assert lease(store, worker="two") == []
    assert record(store, leased, None, 60).cancelled
    assert len(lease(store, worker="two")) == 1


def test_what_a_worker_does_not_know_is_left_alone(store: Store) -> None:
    strange = [submitted(store, "migrate"), submitted(store, "fork", "teleport")]
    assert lease(store) == []
    with store.read() as tx:
        assert operations.seconds_until_due(tx, KNOWN) is None
        assert {operation.id for operation in operations.list_unknown(tx, KNOWN)} == set(strange)
        untouched = operations.get(tx, strange[0])
    assert untouched is not None
    assert (untouched.attempt, untouched.fence) == (0, 0)


def test_the_operations_of_a_subject_are_listed_newest_first(store: Store) -> None:
    ids = [submitted(store) for _ in range(3)]
    with store.read() as tx:
        assert [operation.id for operation in operations.of_subject(tx, "subject")] == ids[::-1]
        assert operations.under_way(tx, "subject", ProcedureName.FORK)
        assert not operations.under_way(tx, "subject", ProcedureName.DELETE)
        assert not operations.under_way(tx, "another", "fork")


def test_the_deadline_of_an_operation_whose_worker_was_lost_starts_again(store: Store) -> None:
    submitted(store)
    given_back = record(store, replace(lease(store)[0], idle_seconds=7.0), None)
    assert lease(store)[0].idle_seconds == 7.0
    record(store, replace(given_back, fence=given_back.fence + 1), "one", -1)
    assert lease(store)[0].idle_seconds == 0.0


def test_what_clients_wait_for_runs_before_what_no_client_requested(store: Store) -> None:
    known = Known(frozenset({"fork.capture", "restart.boot"}), frozenset(), low_priority=frozenset({"restart"}))
    with store.write() as tx:
        restarts = [submit(tx, "restart", "boot", f"service{n}", {}) for n in range(4)]
        forks = [submit(tx, "fork", "capture", "fork", {}) for _ in range(2)]
        operations.cancel(tx, restarts[3])
    with store.write() as tx:
        turns = [operations.lease(tx, "one", known, 30, 1)[0].id for _ in range(6)]
    assert turns == [*forks, restarts[3], *restarts[:3]]


def test_a_restart_that_a_fork_waits_for_is_not_put_off(store: Store) -> None:
    known = Known(frozenset({"fork.capture", "restart.boot"}), frozenset(), low_priority=frozenset({"restart"}))
    with store.write() as tx:
        service = a_service(tx, a_project(tx))
        other, wanted = (submit(tx, "restart", "boot", subject, {}) for subject in ("another", service.id))
        fork = submit(tx, "fork", "capture", "fork", {})
        services.add_hold(tx, service.id, fork)
    with store.write() as tx:
        turns = [operations.lease(tx, "one", known, 30, 1)[0].id for _ in range(3)]
    assert turns == [wanted, fork, other]


def test_what_no_client_requested_is_delayed_for_a_minute_only(store: Store) -> None:
    known = Known(frozenset({"fork.capture", "restart.boot"}), frozenset(), low_priority=frozenset({"restart"}))
    with store.write() as tx:
        restart = submit(tx, "restart", "boot", "service", {})
        tx.execute(operation.update().values(run_at=operation.c.run_at - 61))
        submit(tx, "fork", "capture", "fork", {})
    with store.write() as tx:
        assert [leased.id for leased in operations.lease(tx, "one", known, 30, 1)] == [restart]


def test_a_snapshot_that_deletions_wait_for_is_taken_however_often_they_look(store: Store) -> None:
    known = Known(frozenset({"delete.settle", "snapshot.take"}), frozenset(), background=frozenset({"snapshot"}))
    with store.write() as tx:
        service = a_service(tx, a_project(tx))
        other, snapshot = (submit(tx, "snapshot", "take", subject, {}) for subject in ("another", service.id))
        services.add_hold(tx, service.id, snapshot)
        deletion = submit(tx, "delete", "settle", service.id, {})
    turns = []
    for _ in range(3):
        with store.write() as tx:
            leased = operations.lease(tx, "one", known, 30, 1)[0]
            turns.append(leased.id)
            if leased.id == deletion:
                operations.record(tx, leased, None, 0)
            tx.execute(operation.update().values(run_at=operation.c.run_at - 0.7))
    assert turns[0] == deletion
    assert snapshot in turns  # where the machine is slow, it is due sooner
    assert other not in turns


@pytest.mark.parametrize("step_seconds", [60, 300, 3600])
def test_what_waits_is_due_when_the_clock_steps_back(store: Store, step_seconds: float) -> None:
    resting = submitted(store)
    record(store, lease(store)[0], None, 600)
    queued = submitted(store)
    step_clock_back(store, step_seconds)
    with store.read() as tx:
        assert operations.seconds_until_due(tx, KNOWN) == 0
    assert {leased.id for leased in lease(store)} == {queued, resting}


def test_a_lease_lasts_no_longer_when_the_clock_steps_back(store: Store) -> None:
    submitted(store)
    lease(store, seconds=30)
    step_clock_back(store, 3600)
    assert lease(store, worker="two") == []
    with store.write() as tx:
        operations.cut_leases(tx)
        due_in = operations.seconds_until_due(tx, KNOWN)
    assert due_in is not None
    assert 0 < due_in <= 30


def test_a_lease_of_before_the_step_is_renewed_by_its_holder_and_recorded(store: Store) -> None:
    submitted(store)
    held = lease(store, seconds=30)[0]
    step_clock_back(store, 3600)
    with store.write() as tx:
        operations.cut_leases(tx)
        operations.renew(tx, "one", [held.id], 30)
    assert lease(store, worker="two") == []
    assert record(store, replace(held, step="recover"), "one", 30).step == "recover"
