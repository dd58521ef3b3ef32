"""What is deleted, and what else waits, while another operation takes long."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa

from ramet.control import replica_sets, restore
from ramet.control.plane import utc_now
from ramet.control.requests import ForkRequest
from ramet.control.services import delete_service, get_service, optimize_service, resize_service
from ramet.errors import NotFound
from ramet.model.fork import ForkStrategy
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.operations.procedure import Outcome, Procedure, Wait, Work
from ramet.operations.worker import Worker
from ramet.procedures.registry import all_procedures
from ramet.procedures.servers import Tools
from ramet.store.tables import operation
from tests import procedure_laws as laws
from tests.control.replica_sets import request
from tests.worlds import Hurried, World, fork_service


class Blocked:
    """A procedure whose first step takes as long as a test wants."""

    def __init__(self) -> None:
        self.is_blocked = True

    def rewrite(self, procedure: Procedure) -> Procedure:
        name, step = next(iter(procedure.steps.items()))

        def run(work: Work[Any]) -> Outcome:
            return Wait(0.05, "blocked") if self.is_blocked else step(work)

        return replace(procedure, steps={**procedure.steps, name: run})


def hours_pass() -> Callable[[], datetime]:
    """Return a clock by which each look at it comes an hour after the one before."""
    hours = count(1)
    return lambda: utc_now() + timedelta(hours=next(hours))


def test_a_deletion_waits_as_long_as_what_it_interrupts_takes(world: World) -> None:
    service, blocked = world.create(), Blocked()
    procedures = all_procedures(Tools(world.store, world.backend, hours_pass()))
    procedures = laws.rewritten(procedures, "resize", blocked.rewrite)
    procedures = laws.rewritten(procedures, "delete", lambda one: replace(one, deadline_seconds=0.01))
    resize_service(world.plane, world.project.id, service.id, 2000, 8)
    delete_service(world.plane, world.project.id, service.id)
    worker = Worker(world.store, procedures)
    worker.run_until_idle(horizon_seconds=0.01)
    for _ in range(3):
        worker.run_until_idle(limit_seconds=0.3)
        assert status_of(get_service(world.plane, world.project.id, service.id)) is Status.DELETING
    blocked.is_blocked = False
    worker.run_until_idle()
    with pytest.raises(NotFound):
        get_service(world.plane, world.project.id, service.id)
    assert world.leftovers() == []


def test_a_deletion_does_not_wait_for_statistics(world: World) -> None:
    service, blocked = world.create(), Blocked()
    procedures = laws.rewritten(world.procedures, "optimize", blocked.rewrite)
    optimize_service(world.plane, world.project.id, service.id)
    worker = Worker(world.store, procedures)
    worker.run_until_idle(horizon_seconds=0)
    delete_service(world.plane, world.project.id, service.id)
    worker.run_until_idle()
    with pytest.raises(NotFound):
        get_service(world.plane, world.project.id, service.id)
    assert world.leftovers() == []


def fork_the_last_snapshot(world: World, service: Service) -> None:
    world.backend.commit(service.id, "row")
    world.fork(service)
    fork_service(world.plane, world.project.id, service.id, ForkRequest(ForkStrategy.LAST_SNAPSHOT))


def delete_a_snapshot_that_is_held(world: World, service: Service) -> None:
    snapshot = restore.take_snapshot(world.plane, world.project.id, service.id, "good")
    world.worker.run_until_idle()
    fork_service(world.plane, world.project.id, service.id, ForkRequest(ForkStrategy.NOW))
    restore.delete_snapshot(world.plane, world.project.id, service.id, snapshot.id)


def delete_replicas_that_are_being_made(world: World, service: Service) -> None:
    made = replica_sets.create_set(world.plane, world.project.id, service.id, request())
    replica_sets.delete_set(world.plane, world.project.id, service.id, made.id)


@pytest.mark.parametrize(
    ("begin", "waiting"),
    [
        (fork_the_last_snapshot, "fork"),
        (delete_a_snapshot_that_is_held, "delete_snapshot"),
        (delete_replicas_that_are_being_made, "delete_replicas"),
    ],
)
def test_what_waits_for_another_operation_waits_as_long_as_that_takes(
    world: World, begin: Callable[[World, Service], None], waiting: str
) -> None:
    begin(world, world.create())
    procedures = all_procedures(Tools(world.store, world.backend, hours_pass()))
    alone = [replace(one, deadline_seconds=0.01) for one in procedures if one.name == waiting]
    Hurried(world.store, alone).run_until_idle(limit_seconds=0.3)
    world.worker.run_until_idle()
    with world.store.read() as tx:
        ends = tx.execute(sa.select(operation.c.status, operation.c.error).where(operation.c.procedure == waiting))
        assert {tuple(end) for end in ends} == {("SUCCEEDED", None)}


def test_after_a_deletion_that_failed_what_it_interrupted_has_the_service_again(world: World) -> None:
    service, blocked = world.create(), Blocked()
    procedures = laws.rewritten(world.procedures, "resize", blocked.rewrite)
    failing = laws.rewritten(procedures, "delete", lambda one: laws.failing(one, "settle", after=False))
    resize_service(world.plane, world.project.id, service.id, 2000, 8)
    delete_service(world.plane, world.project.id, service.id)
    Worker(world.store, failing).run_until_idle(horizon_seconds=0.01)
    left = get_service(world.plane, world.project.id, service.id)
    assert left.activity is not None
    assert left.activity.procedure == ProcedureName.RESIZE
    assert "could not be deleted" in (left.down_reason or "")
    blocked.is_blocked = False
    Worker(world.store, procedures).run_until_idle()
    world.health.inspect()
    assert status_of(get_service(world.plane, world.project.id, service.id)) is Status.READY
