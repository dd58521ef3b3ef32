"""Forks that become fresh copies of their parents, or go back to their own checkpoints."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
import sqlalchemy as sa

from ramet.backends.interface.values import Server
from ramet.control.services import delete_service, list_services
from ramet.errors import Failed, Invalid, WrongState
from ramet.model.fork import ForkStrategy
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.status import OperationStatus, Status
from ramet.operations.procedure import Procedure, Wait
from ramet.operations.worker import Worker
from ramet.restores import verbs
from ramet.restores.verbs import ResetRequest, Restore, RestoreRequest, RewindRequest
from ramet.store import operations
from ramet.store.tables import operation, operation_event
from tests import procedure_laws as laws
from tests.restores.restoring import checkpoint, now, reset, restore, rewind, seen
from tests.worlds import Hurried, World


def test_a_reset_fork_is_a_fresh_copy_and_its_own_forks_are_untouched(world: World, shop: Service) -> None:
    fork = world.fork(shop)
    world.backend.commit(fork.id, "tried")
    grandchild = world.fork(fork)
    world.backend.commit(shop.id, "two")
    found = reset(world, fork, ResetRequest())
    after = seen(world, fork.id)
    assert (after.port, found.previous_service_id) == (fork.port, None)
    assert world.backend.values(fork.id) == ["one", "two"]
    assert world.backend.values(grandchild.id) == ["one", "tried"]
    assert {one.id for one in list_services(world.plane, world.project.id)} == {shop.id, fork.id, grandchild.id}
    assert world.leftovers() == []


@pytest.mark.parametrize("strategy", [ForkStrategy.LAST_SNAPSHOT, ForkStrategy.PITR])
def test_a_fork_can_be_reset_to_earlier_states_of_its_parent(
    world: World, shop: Service, strategy: ForkStrategy
) -> None:
    fork = world.fork(shop)
    checkpoint(world, shop, "newest")
    target = now(world) if strategy is ForkStrategy.PITR else None
    world.backend.commit(shop.id, "two")
    reset(world, fork, ResetRequest(strategy, target_time=target))
    assert world.backend.values(fork.id) == ["one"]
    origin = seen(world, fork.id).origin
    assert origin is not None
    assert (origin.strategy, origin.target_time) == (strategy, target)


def test_only_a_fork_can_be_reset(world: World, shop: Service) -> None:
    with pytest.raises(Invalid, match="is not a fork"):
        reset(world, shop, ResetRequest())


def test_a_fork_is_rewound_as_often_as_one_likes(world: World, shop: Service) -> None:
    fork = world.fork(shop)
    checkpoint(world, fork, "start")
    for number in range(5):
        world.backend.commit(fork.id, f"try {number}")
        found = rewind(world, fork, "start")
        assert (found.error, world.backend.values(fork.id)) == (None, ["one"])
    assert {one.id for one in list_services(world.plane, world.project.id)} == {shop.id, fork.id}
    assert world.leftovers() == []


def test_statistics_are_collected_anew_and_only_a_reset_fork_is_examined(world: World, shop: Service) -> None:
    fork = world.fork(shop)
    checkpoint(world, fork, "start")
    found = restore(world, shop, RestoreRequest(target_time=now(world))), rewind(world, fork, "start")
    steps = [aftercare(world, shop)[-1], aftercare(world, fork)[-1]]
    assert ([one.error for one in found], steps) == ([None, None], [["analyze"], ["analyze"]])
    reset(world, fork, ResetRequest())
    assert aftercare(world, fork)[-1] == ["examine", "analyze"]


def aftercare(world: World, service: Service) -> list[list[str]]:
    """Return the steps of each operation that examines a service, oldest first."""
    with world.store.read() as tx:
        found = [one for one in operations.of_subject(tx, service.id) if one.procedure == ProcedureName.AFTERCARE]
    return [steps_of(world, one.id) for one in sorted(found, key=lambda one: one.created_at)]


def begin_rewind(world: World, service: Service) -> Restore:
    """Ask for a rewind that loses a row."""
    checkpoint(world, service, "start")
    world.backend.commit(service.id, "try")
    return verbs.rewind_service(world.plane, world.project.id, service.id, RewindRequest("start"))


def make_due(world: World) -> None:
    """Let what waits, or is leased, run again."""
    with world.store.write() as tx:
        tx.execute(operation.update().values(run_at=0.0))


def steps_of(world: World, restore_id: str) -> list[str]:
    with world.store.read() as tx:
        query = sa.select(operation_event.c.step).where(operation_event.c.operation_id == restore_id)
        return list(tx.execute(query).scalars())


@pytest.mark.parametrize("subscribes", [False, True])
def test_the_copy_of_a_rewind_is_started_beside_the_service_only_if_it_would_reach_other_systems(
    world: World, shop: Service, subscribes: bool
) -> None:
    world.backend.replacements.subscribes = subscribes
    begun = begin_rewind(world, shop)
    world.worker.run_until_idle()
    assert world.backend.values(shop.id) == ["one"]
    assert ({"boot", "secure"} <= set(steps_of(world, begun.id))) is subscribes
    request = RestoreRequest(snapshot="start")
    assert {"boot", "secure"} <= set(steps_of(world, restore(world, shop, request).id))


@pytest.mark.parametrize("law", [laws.twice, laws.crashing], ids=["twice", "crash"])
@pytest.mark.parametrize("step", ["depart", "close", "serve", "open"])
def test_a_rewind_is_exact_whatever_happens_at_a_step(
    world: World, shop: Service, step: str, law: Callable[[Procedure, str], Procedure]
) -> None:
    begun = begin_rewind(world, shop)
    rewritten = laws.rewritten(world.procedures, "restore", lambda one: law(one, step))
    with suppress(laws.Crash):
        Worker(world.store, rewritten).run_until_idle()
    make_due(world)
    world.worker.run_until_idle()
    assert verbs.get_restore(world.plane, world.project.id, shop.id, begun.id).error is None
    assert (status_of(seen(world, shop.id)), world.backend.values(shop.id)) == (Status.READY, ["one"])
    assert world.leftovers() == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", ["close", "serve"])
def test_a_rewind_that_fails_changes_nothing(world: World, shop: Service, step: str, after: bool) -> None:
    begun = begin_rewind(world, shop)
    rewritten = laws.rewritten(world.procedures, "restore", lambda one: laws.failing(one, step, after=after))
    Worker(world.store, rewritten).run_until_idle()
    found = verbs.get_restore(world.plane, world.project.id, shop.id, begun.id)
    assert found.status is OperationStatus.FAILED
    assert (status_of(seen(world, shop.id)), world.backend.values(shop.id)) == (Status.READY, ["one", "try"])
    assert world.leftovers() == []


def test_a_restore_is_over_when_clients_are_let_in_and_the_next_one_may_begin(world: World, shop: Service) -> None:
    begun = begin_rewind(world, shop)
    waiting = laws.rewritten(world.procedures, "restore", waits_at_its_end)
    Worker(world.store, waiting).run_until_idle()
    found = verbs.get_restore(world.plane, world.project.id, shop.id, begun.id)
    assert (found.status, found.step, found.finished_at is not None) == (OperationStatus.SUCCEEDED, None, True)
    assert world.leftovers()
    assert rewind(world, shop, "start").status is OperationStatus.SUCCEEDED
    make_due(world)
    world.worker.run_until_idle()
    assert world.leftovers() == []


def waits_at_its_end(procedure: Procedure) -> Procedure:
    """Let nothing be removed yet."""
    return replace(procedure, steps={**procedure.steps, "clear": lambda _: Wait(3600, "not yet")})


def test_a_checkpoint_with_a_name_of_before_is_the_one_that_counts(world: World, shop: Service) -> None:
    checkpoint(world, shop, "good")
    world.backend.commit(shop.id, "two")
    checkpoint(world, shop, "good")
    world.backend.commit(shop.id, "three")
    rewind(world, shop, "good")
    assert world.backend.values(shop.id) == ["one", "two"]


def test_a_checkpoint_that_is_being_taken_is_not_passed_over_for_an_earlier_one(world: World, shop: Service) -> None:
    checkpoint(world, shop, "good")
    world.backend.commit(shop.id, "two")
    verbs.create_checkpoint(world.plane, world.project.id, shop.id, "good")
    with pytest.raises(WrongState, match="The newest snapshot named 'good' is being taken"):
        rewind(world, shop, "good")
    world.worker.run_until_idle()
    world.backend.commit(shop.id, "three")
    rewind(world, shop, "good")
    assert world.backend.values(shop.id) == ["one", "two"]


def test_an_unknown_checkpoint_is_named(world: World, shop: Service) -> None:
    with pytest.raises(Invalid, match="no snapshot with the id or the name 'never'"):
        rewind(world, shop, "never")


def test_a_fork_that_cannot_be_started_again_after_a_failure_can_be_deleted(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork, start = world.fork(shop), world.backend.servers.start

    def lost(server: Server, **phase: bool) -> None:
        if server.service_id == fork.id:
            raise Failed("VOLUME_LOST", "Its volume is lost", "It cannot be started.")
        start(server, **phase)

    monkeypatch.setattr(world.backend.servers, "start", lost)
    verbs.reset_service(world.plane, world.project.id, fork.id, ResetRequest())
    procedures = laws.rewritten(world.procedures, "restore", lambda one: laws.failing(one, "take_over", after=True))
    Worker(world.store, procedures).run_until_idle()
    assert status_of(seen(world, fork.id)) is Status.UNSTABLE
    delete_service(world.plane, world.project.id, fork.id)
    Hurried(world.store, world.procedures).run_until_idle(horizon_seconds=10.0)
    assert [one.id for one in list_services(world.plane, world.project.id)] == [shop.id]
    assert world.leftovers() == []
