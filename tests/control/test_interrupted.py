"""What is deleted while another operation on it takes long."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest

from ramet.control.plane import utc_now
from ramet.control.services import delete_service, get_service, optimize_service
from ramet.errors import NotFound
from ramet.model.procedures import ProcedureName
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.operations.procedure import Outcome, Procedure, Wait, Work
from ramet.operations.worker import Worker
from ramet.procedures.registry import all_procedures
from ramet.procedures.servers import Tools
from tests import procedure_laws as laws
from tests.worlds import World


class Blocked:
    """An `optimize` that takes as long as a test wants."""

    def __init__(self) -> None:
        self.is_blocked = True

    def rewrite(self, procedure: Procedure) -> Procedure:
        analyze = procedure.steps["analyze"]

        def run(work: Work[Any]) -> Outcome:
            return Wait(0.05, "ANALYZE") if self.is_blocked else analyze(work)

        return replace(procedure, steps={"analyze": run})


def hours_pass() -> Callable[[], datetime]:
    """Return a clock by which each look at it comes an hour after the one before."""
    hours = count(1)
    return lambda: utc_now() + timedelta(hours=next(hours))


def test_a_deletion_waits_as_long_as_what_it_interrupts_takes(world: World) -> None:
    service, blocked = world.create(), Blocked()
    procedures = all_procedures(Tools(world.store, world.backend, hours_pass()), timedelta(days=7))
    procedures = laws.rewritten(procedures, "optimize", blocked.rewrite)
    procedures = laws.rewritten(procedures, "delete", lambda one: replace(one, deadline_seconds=0.01))
    optimize_service(world.plane, world.project.id, service.id)
    delete_service(world.plane, world.project.id, service.id)
    worker = Worker(world.store, procedures)
    worker.run_until_idle(horizon_seconds=0.01)
    for _ in range(3):
        worker.run_until_idle(horizon_seconds=0.06, limit_seconds=0.3)
        assert status_of(get_service(world.plane, world.project.id, service.id)) is Status.DELETING
    blocked.is_blocked = False
    worker.run_until_idle()
    with pytest.raises(NotFound):
        get_service(world.plane, world.project.id, service.id)
    assert world.leftovers() == []


def test_after_a_deletion_that_failed_what_it_interrupted_has_the_service_again(world: World) -> None:
    service, blocked = world.create(), Blocked()
    procedures = laws.rewritten(world.procedures, "optimize", blocked.rewrite)
    failing = laws.rewritten(procedures, "delete", lambda one: laws.failing(one, "settle", after=False))
    optimize_service(world.plane, world.project.id, service.id)
    delete_service(world.plane, world.project.id, service.id)
    Worker(world.store, failing).run_until_idle(horizon_seconds=0.01)
    left = get_service(world.plane, world.project.id, service.id)
    assert left.activity is not None
    assert left.activity.procedure == ProcedureName.OPTIMIZE
    assert "could not be deleted" in (left.down_reason or "")
    blocked.is_blocked = False
    Worker(world.store, procedures).run_until_idle()
    world.health.inspect()
    assert status_of(get_service(world.plane, world.project.id, service.id)) is Status.READY
