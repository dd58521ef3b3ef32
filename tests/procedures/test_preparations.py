"""Which snapshots are made quick to fork: the first one, and those of services that are forked."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.memory.backend import MemoryBackend
from ramet.backends.memory.restore import MemoryRestore
from ramet.control.duties.snapshots import submit_scheduled
from ramet.control.plane import utc_now
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.control.restore import take_snapshot
from ramet.control.services import create_service, get_service
from ramet.model.fork import ForkStrategy
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.operations.worker import Worker
from ramet.procedures.registry import all_procedures
from ramet.procedures.servers import Tools
from ramet.store import services, snapshots
from ramet.store.due import UNDER_WAY
from ramet.store.tables import operation, operation_event
from tests.worlds import World, make_world

NOW, LAST_SNAPSHOT = (ForkRequest(strategy) for strategy in (ForkStrategy.NOW, ForkStrategy.LAST_SNAPSHOT))


class PreparingBackend(MemoryBackend):
    """Records which snapshots are prepared."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared: set[str] = set()
        self.spares = 0
        self.restore = PreparingRestore(self)


class PreparingRestore(MemoryRestore):
    """Records which snapshots are prepared."""

    def __init__(self, backend: PreparingBackend) -> None:
        super().__init__(backend)
        self._backend = backend

    def prepare_snapshot(self, server: Server, snapshot_id: str, timeout_seconds: float, spares: int) -> str | None:
        """Record it."""
        self._backend.prepared.add(snapshot_id)
        self._backend.spares = spares
        return super().prepare_snapshot(server, snapshot_id, timeout_seconds, spares)

    def discard_preparation(self, service_id: str, snapshot_id: str) -> None:
        """Forget it."""
        self._backend.prepared.discard(snapshot_id)


@pytest.fixture
def backend() -> PreparingBackend:
    return PreparingBackend()


@pytest.fixture
def world(tmp_path: Path, backend: PreparingBackend) -> Iterator[World]:
    made = make_world(tmp_path, backend)
    yield made
    made.store.close()


def known(world: World, service: Service) -> list[str]:
    """Return the ids of a service's snapshots, oldest first."""
    with world.store.read() as tx:
        return [one.id for one in sorted(snapshots.list_snapshots(tx, service.id), key=lambda one: one.taken_at)]


def snapshot(world: World, service: Service) -> str:
    """Take a snapshot, and return its id."""
    world.backend.commit(service.id, "row")
    submit_scheduled(world.plane, service.id)
    world.worker.run_until_idle()
    return known(world, service)[-1]


def test_the_first_snapshot_is_prepared_and_later_ones_are_not_without_forks(
    world: World, backend: PreparingBackend
) -> None:
    service = world.create()
    assert backend.prepared == set(known(world, service))
    snapshot(world, service)
    assert backend.prepared == set()


def test_the_first_client_of_a_new_service_comes_before_the_preparation(
    world: World, backend: PreparingBackend
) -> None:
    tools = Tools(world.store, backend, utc_now, preparation_rest=timedelta(hours=1))
    accepted = create_service(world.plane, world.project.id, CreateRequest("shop"))
    Worker(world.store, all_procedures(tools)).run_until_idle()
    assert status_of(get_service(world.plane, world.project.id, accepted.service.id)) is Status.READY
    assert backend.prepared == set()


@pytest.mark.parametrize("asked", [NOW, LAST_SNAPSHOT], ids=["now", "last snapshot"])
def test_a_fork_has_the_newest_snapshot_of_its_parent_prepared_and_those_that_follow(
    world: World, backend: PreparingBackend, asked: ForkRequest
) -> None:
    service = world.create()
    newest = snapshot(world, service)
    fork = world.fork(service, asked)
    assert backend.prepared == {newest}
    assert backend.prepared.isdisjoint(known(world, fork))
    assert backend.prepared == {snapshot(world, service)}


def test_the_newest_snapshot_by_hand_stays_prepared(world: World, backend: PreparingBackend) -> None:
    service = world.create()
    taken = [take_snapshot(world.plane, world.project.id, service.id, name).id for name in ("first", "second")]
    world.worker.run_until_idle()
    assert backend.prepared == {taken[1]}
    snapshot(world, service)
    assert backend.prepared == {taken[1]}
    world.fork(service)
    assert backend.prepared == {taken[1], known(world, service)[-1]}


def test_forks_of_other_times_and_of_long_ago_have_nothing_prepared(world: World, backend: PreparingBackend) -> None:
    service = world.create()
    snapshot(world, service)
    past = world.plane.clock().isoformat()
    snapshot(world, service)
    world.fork(service, ForkRequest(ForkStrategy.PITR, target_time=past))
    snapshot(world, service)
    assert backend.prepared == set()
    old = world.fork(service)
    assert backend.prepared == {known(world, service)[-1]}
    with world.store.write() as tx:
        services.update_service(tx, old.id, created_at=old.created_at - timedelta(days=8))
    snapshot(world, service)
    assert backend.prepared == set()


def test_a_snapshot_is_prepared_later_if_snapshots_and_the_last_preparation_took_long(
    world: World, backend: PreparingBackend
) -> None:
    service = world.create()
    world.fork(service)
    snapshot(world, service)
    with world.store.write() as tx:
        tx.execute(operation_event.update().where(operation_event.c.step == "prepare").values(seconds=30.0))
    quick = snapshot(world, service)
    assert backend.prepared == {quick}

    ticks = count(0, 10)
    slow = Tools(world.store, backend, utc_now, timedelta(0), stopwatch=lambda: float(next(ticks)))
    world.backend.commit(service.id, "row")
    submit_scheduled(world.plane, service.id)
    Worker(world.store, all_procedures(slow)).run_until_idle()
    newest = known(world, service)[-1]
    assert backend.prepared == set()
    fork = world.fork(service, LAST_SNAPSHOT)
    assert world.backend.values(fork.id) == world.backend.values(service.id)
    assert backend.prepared == set()

    for seconds, wanted in ((500, set()), (601, {newest})):
        run_later(world, timedelta(seconds=seconds))
        assert backend.prepared == wanted


def run_later(world: World, ahead: timedelta) -> None:
    """Run all operations as if so much time had passed."""
    with world.store.write() as tx:
        tx.execute(operation.update().where(UNDER_WAY).values(run_at=0.0))
    tools = Tools(world.store, world.backend, lambda: utc_now() + ahead, timedelta(0), preparation_rest=timedelta(0))
    Worker(world.store, all_procedures(tools)).run_until_idle()


def test_as_many_forks_as_came_of_late_are_prepared_for(world: World, backend: PreparingBackend) -> None:
    service = world.create()
    forks = []
    for wanted in (0, 0, 2, 3):
        assert backend.spares == wanted
        forks += [world.fork(service)]
    for late, ago, wanted in ((1, timedelta(minutes=11), 2), (3, timedelta(minutes=11), 1)):
        with world.store.write() as tx:
            for fork in forks[: late + 1]:
                services.update_service(tx, fork.id, created_at=fork.created_at - ago)
        snapshot(world, service)
        assert backend.spares == wanted
