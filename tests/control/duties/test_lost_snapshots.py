"""Rows of snapshots that the host does not hold: an older store was restored."""

import pytest

from ramet.control.duties.lost_snapshots import LostSnapshots
from ramet.control.duties.snapshots import ScheduledSnapshots, submit_scheduled
from ramet.control.requests import ForkRequest
from ramet.control.services import delete_service, stop_service
from ramet.errors import Invalid
from ramet.model.fork import ForkStrategy
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service
from ramet.model.timestamps import rfc3339
from ramet.procedures.spec import submit
from ramet.procedures.state import Interrupting
from ramet.store import operations, services, snapshots
from tests.worlds import World, fork_service


def take(world: World, service: Service) -> str:
    submit_scheduled(world.plane, service.id)
    world.worker.run_until_idle()
    return ids(world, service)[-1]


def ids(world: World, service: Service) -> list[str]:
    with world.store.read() as tx:
        return [snapshot.id for snapshot in snapshots.list_snapshots(tx, service.id)]


@pytest.fixture
def service(world: World) -> Service:
    """A service whose newest snapshot is lost; the one before is there."""
    made = world.create()
    world.backend.commit(made.id, "kept")
    take(world, made)
    world.backend.commit(made.id, "later")
    world.backend.restore.delete_snapshot(made.id, take(world, made))
    return made


def test_forks_grow_from_the_snapshot_before_the_lost_one(world: World, service: Service) -> None:
    LostSnapshots(world.plane).remove()
    assert frozenset(ids(world, service)) == world.backend.restore.snapshot_ids(service.id)
    fork = world.fork(service, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert world.backend.values(fork.id) == ["kept"]
    target = rfc3339(world.plane.clock())
    fork = world.fork(service, ForkRequest(ForkStrategy.PITR, target_time=target))
    assert world.backend.values(fork.id) == ["kept", "later"]


def test_a_service_that_is_gone_is_forgotten(world: World, service: Service) -> None:
    duty, other = LostSnapshots(world.plane), world.create()
    duty.remove()
    assert duty._compared == {service.id, other.id}
    delete_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    duty.remove()
    assert duty._compared == {other.id}


def test_forks_begin_with_the_snapshot_before_one_that_was_removed_since_the_last_look(
    world: World, service: Service
) -> None:
    fork = world.fork(service, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert world.backend.values(fork.id) == ["kept"]
    fork = world.fork(service, ForkRequest(ForkStrategy.PITR, target_time=rfc3339(world.plane.clock())))
    assert world.backend.values(fork.id) == ["kept", "later"]


def test_a_fork_of_the_last_snapshot_has_what_an_earlier_fork_of_now_had_though_that_snapshot_was_removed(
    world: World, service: Service
) -> None:
    world.fork(service)
    fork = world.fork(service, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert world.backend.values(fork.id) == ["kept", "later"]


def test_nothing_is_forgotten_while_a_service_is_held_or_its_volume_is_not_there(
    world: World, service: Service
) -> None:
    known, duty = ids(world, service), LostSnapshots(world.plane)
    with world.store.write() as tx:
        operation_id = submit(tx, ProcedureName.STOP, service.id, Interrupting())
        services.add_hold(tx, service.id, operation_id)
    duty.remove()
    assert ids(world, service) == known
    volume = world.backend.volumes.pop(service.id)
    with world.store.write() as tx:
        services.drop_holds(tx, operation_id)
    duty.remove()
    assert ids(world, service) == known
    world.backend.volumes[service.id] = volume
    duty.remove()
    assert len(ids(world, service)) == len(known) - 1


def test_nothing_is_forgotten_while_an_operation_changes_a_service(world: World, service: Service) -> None:
    known, duty = ids(world, service), LostSnapshots(world.plane)
    stop_service(world.plane, world.project.id, service.id)
    duty.remove()
    assert ids(world, service) == known
    world.worker.run_until_idle()
    duty.remove()
    assert len(ids(world, service)) == len(known) - 1


def test_a_service_without_any_snapshot_left_gets_a_new_one(world: World) -> None:
    service = world.create()
    world.backend.volumes[service.id].snapshots.clear()
    LostSnapshots(world.plane).remove()
    with pytest.raises(Invalid):
        fork_service(
            world.plane,
            world.project.id,
            service.id,
            ForkRequest(ForkStrategy.PITR, target_time=rfc3339(world.plane.clock())),
        )
    ScheduledSnapshots(world.plane).take_due()
    world.worker.run_until_idle()
    assert len(ids(world, service)) == 1


def test_no_snapshot_is_submitted_of_a_service_that_is_being_deleted(world: World) -> None:
    service = world.create()
    delete_service(world.plane, world.project.id, service.id)
    submit_scheduled(world.plane, service.id)
    with world.store.read() as tx:
        assert not operations.under_way(tx, service.id, ProcedureName.SNAPSHOT)


def test_no_scheduled_snapshot_is_taken_of_a_service_that_an_operation_has_claimed(world: World) -> None:
    service = world.create()
    known = ids(world, service)
    world.backend.commit(service.id, "row")
    stop_service(world.plane, world.project.id, service.id)
    submit_scheduled(world.plane, service.id)
    world.worker.run_until_idle()
    assert ids(world, service) == known
