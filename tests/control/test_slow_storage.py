"""Snapshots that are cut at once, and that the storage works on for long."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from ramet.backends.interface.restore import SNAPSHOT_UNDER_WAY
from ramet.backends.interface.values import Server, SnapshotFacts, Source
from ramet.control import restore
from ramet.control.duties.drills import submit_due_drill
from ramet.control.replica_sets import delete_set
from ramet.control.requests import ForkRequest
from ramet.control.services import delete_service, get_service, start_service, stop_service
from ramet.errors import Unavailable
from ramet.ids import new_id
from ramet.model.fork import ForkStrategy
from ramet.model.procedures import ProcedureName
from ramet.model.replica_set import replica_status
from ramet.model.service import status_of
from ramet.model.status import OperationStatus, ReplicaSetStatus, Status
from ramet.operations.transitions import MAX_ATTEMPTS
from ramet.procedures.postponed import next_snapshot_at
from ramet.procedures.spec import submit
from ramet.procedures.state import DrillState
from ramet.restores.verbs import RestoreRequest
from ramet.store import operations, services, snapshots
from ramet.store.tables import operation
from tests.control.replica_sets import create, sets_of
from tests.restores.restoring import now, seen
from tests.restores.restoring import restore as restored
from tests.worlds import Hurried, World, fork_service


class Patient(Hurried):
    """Runs also what waits for storage."""

    def run_until_idle(self, horizon_seconds: float = 10.0, limit_seconds: float = 10.0) -> None:
        """Run what is due within `horizon_seconds`, without the time until then."""
        super().run_until_idle(horizon_seconds, limit_seconds)


def _working(act: Callable[..., Any], times: int) -> Callable[..., Any]:
    """Return what says so many times that the storage works on the snapshot."""
    left = [*range(times)]

    def working(*args: Any, **options: Any) -> Any:
        if left:
            raise Unavailable(SNAPSHOT_UNDER_WAY, f"The storage has worked on it for {times - left.pop()} min")
        return act(*args, **options)

    return working


@pytest.mark.parametrize("work", ["create", "fork", "replicas"])
def test_what_begins_with_a_snapshot_waits_as_long_as_the_storage_takes(
    world: World, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    world = replace(world, worker=Patient(world.store, world.procedures))

    def slow(part: object, name: str) -> None:
        monkeypatch.setattr(part, name, _working(getattr(part, name), MAX_ATTEMPTS + 1))

    if work == "create":
        slow(world.backend.restore, "take_snapshot")
        assert status_of(world.create()) is Status.READY
        return
    parent = world.create()
    if work == "fork":
        slow(world.backend.restore, "capture")
        assert status_of(world.fork(parent)) is Status.READY
        return
    slow(world.backend.replicas, "create")
    assert replica_status(create(world, parent)) is ReplicaSetStatus.ACTIVE


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("change", [stop_service, delete_service])
def test_what_waits_for_replicas_that_storage_holds_up_ends_when_these_are_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[..., object], *, is_new: bool
) -> None:
    parent = world.create()
    made = None if is_new else create(world, parent)
    monkeypatch.setattr(world.backend.replicas, "create", _working(lambda _: True, 1_000_000))
    if made is None:
        made = create(world, parent)
    else:
        restored(world, parent, RestoreRequest(target_time=now(world)))
    change(world.plane, world.project.id, parent.id)
    if change is stop_service:
        world.worker.run_until_idle(limit_seconds=1.0)  # it would wait on
        assert status_of(seen(world, parent.id)) is Status.PAUSING
        delete_set(world.plane, world.project.id, parent.id, made.id)
    world.worker.run_until_idle()
    if change is stop_service:
        assert sets_of(world, parent) == []
    with world.store.read() as tx:
        after = services.get_service(tx, parent.id)
    assert after is not None
    assert status_of(after) is (Status.PAUSED if change is stop_service else Status.DELETED)


def test_storage_is_not_asked_all_the_time_whether_a_snapshot_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, asked = world.create(), list[Server]()

    def capture(child: Server, source: Source) -> None:
        asked.append(child)
        raise Unavailable(SNAPSHOT_UNDER_WAY, "The storage works on it")

    monkeypatch.setattr(world.backend.restore, "capture", capture)
    fork_service(world.plane, world.project.id, parent.id, ForkRequest(ForkStrategy.NOW))
    world.worker.run_until_idle(horizon_seconds=1.0, limit_seconds=1.0)
    assert len(asked) == 1


def test_the_time_in_which_storage_worked_on_a_snapshot_counts_as_its_cost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, cut_at = world.create(), datetime.now(UTC)
    take = world.backend.restore.take_snapshot

    def cut_before(*args: Any, **options: Any) -> SnapshotFacts | None:
        facts = take(*args, **options)
        return None if facts is None else replace(facts, taken_at=cut_at)

    monkeypatch.setattr(world.backend.restore, "take_snapshot", _working(cut_before, 1))
    taken = restore.take_snapshot(world.plane, world.project.id, service.id, None)
    world.worker.run_until_idle()
    with world.store.write() as tx:
        begun = {"step_started_at": operation.c.step_started_at - 600, "run_at": 0.0}
        tx.execute(operation.update().where(operation.c.id == taken.id).values(begun))
    cut_at -= timedelta(seconds=500)
    world.worker.run_until_idle()
    with world.store.read() as tx:
        known = {one.id: one for one in snapshots.list_snapshots(tx, service.id)}
        next_at = next_snapshot_at(tx, known[taken.id])
    assert next_at is not None
    assert next_at - cut_at >= timedelta(seconds=20 * 500)


def test_a_snapshot_that_only_storage_works_on_holds_up_no_drill(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = world.create()
    with monkeypatch.context() as patched:
        patched.setattr(world.backend.restore, "take_snapshot", _working(lambda: None, 1))
        restore.take_snapshot(world.plane, world.project.id, service.id, None)
        world.worker.run_until_idle()
    with world.store.write() as tx:
        tx.execute(operation.update().values(run_at=operation.c.run_at + 1000))
    submit_due_drill(world.plane, timedelta(0))
    world.worker.run_until_idle()
    assert get_service(world.plane, world.project.id, service.id).last_verified_at is not None


@pytest.mark.parametrize("is_wanted", [False, True])
def test_a_drill_waits_for_storage_until_another_operation_wants_the_service(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_wanted: bool
) -> None:
    service = world.create()
    if is_wanted:
        stop_service(world.plane, world.project.id, service.id)
        world.worker.run_until_idle()
        with world.store.write() as tx:
            drill_id = submit(tx, ProcedureName.DRILL, service.id, DrillState(drill_id=new_id()))
    else:
        submit_due_drill(world.plane, timedelta(0))
    capture = world.backend.restore.capture
    monkeypatch.setattr(world.backend.restore, "capture", _working(capture, MAX_ATTEMPTS + 1))
    world.worker.run_until_idle()
    if is_wanted:
        start_service(world.plane, world.project.id, service.id)
        with world.store.write() as tx:
            tx.execute(operation.update().where(operation.c.id == drill_id).values(run_at=0.0))
        world.worker.run_until_idle()
    Patient(world.store, world.procedures).run_until_idle()
    after = get_service(world.plane, world.project.id, service.id)
    assert (status_of(after), after.drill_failure) == (Status.READY, None)
    assert (after.last_verified_at is None) == is_wanted
    with world.store.read() as tx:
        assert services.holders(tx, service.id) == []


def test_a_snapshot_that_is_cut_releases_its_service_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service, drop_holds, dropped = world.create(), services.drop_holds, list[str]()

    def noted(tx: sa.Connection, operation_id: str) -> None:
        dropped.append(operation_id)
        drop_holds(tx, operation_id)

    monkeypatch.setattr(services, "drop_holds", noted)
    monkeypatch.setattr(world.backend.restore, "take_snapshot", _working(world.backend.restore.take_snapshot, 3))
    taken = restore.take_snapshot(world.plane, world.project.id, service.id, None)
    Patient(world.store, world.procedures).run_until_idle()
    with world.store.read() as tx:
        assert taken.id in [one.id for one in snapshots.list_snapshots(tx, service.id)]
    assert dropped.count(taken.id) == 2  # when it is cut, and at its end


@pytest.mark.parametrize("change", [stop_service, delete_service])
def test_a_snapshot_that_is_cut_holds_up_nothing_and_is_listed_when_it_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[..., object]
) -> None:
    service = world.create()
    with monkeypatch.context() as patched:
        patched.setattr(world.backend.restore, "take_snapshot", _working(lambda: None, 1))
        taken = restore.take_snapshot(world.plane, world.project.id, service.id, None)
        world.worker.run_until_idle()
    with world.store.write() as tx:
        tx.execute(operation.update().where(operation.c.id == taken.id).values(run_at=operation.c.run_at + 1000))
    change(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    with world.store.write() as tx:
        assert services.holders(tx, service.id) == []
        changed = services.get_service(tx, service.id)
        tx.execute(operation.update().values(run_at=0))
    world.worker.run_until_idle()
    with world.store.read() as tx:
        known = [one.id for one in snapshots.list_snapshots(tx, service.id)]
        (asked,) = [one for one in operations.of_subject(tx, service.id) if one.id == taken.id]
    assert changed is not None
    is_deleted = change is delete_service
    assert (changed.paused, changed.deleted_at is not None) == (not is_deleted, is_deleted)
    assert ((taken.id in known), asked.status) == (not is_deleted, OperationStatus.SUCCEEDED)
