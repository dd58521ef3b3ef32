"""A power cut takes back steps that were not flushed, and every procedure comes to the same end all the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from ramet.control.requests import CreateRequest
from ramet.control.services import delete_service, get_service
from ramet.errors import NotFound
from ramet.followers.verbs import FollowRequest, follow_service, promote_service
from ramet.model.service import Service, status_of
from ramet.model.status import OperationStatus, Status
from ramet.operations.procedure import Procedure, Work
from ramet.store.tables import operation
from tests import procedure_laws as laws
from tests.power_cuts import Disk
from tests.procedures.test_laws import CASES, FOLLOWED, STEPS, nothing_is_held
from tests.worlds import Hurried, World


def cut(world: World, disk: Disk, name: str, rewrite: laws.Rewrite) -> None:
    """Run a procedure until it crashes, and cut the power then."""
    with pytest.raises(laws.Crash):
        Hurried(world.store, laws.rewritten(world.procedures, name, rewrite)).run_until_idle()
    disk.cut_power()


def recover(world: World) -> None:
    """Run what is under way, and what the observer submits, until all servers serve again."""
    for _ in range(3):
        world.health.inspect()
        Hurried(world.store, world.procedures).run_until_idle(horizon_seconds=15.0)


def rows(world: World, service_id: str) -> list[str]:
    return [row.value for row in world.backend.volumes[service_id].rows]


def status(world: World, service_id: str) -> Status | None:
    try:
        return status_of(get_service(world.plane, world.project.id, service_id))
    except NotFound:
        return None


def under_way(world: World, name: str) -> sa.Row[Any]:
    with world.store.read() as tx:
        return tx.execute(operation.select().where(operation.c.procedure == name)).one()


# The backend in memory refuses a pooler of servers that are down.
@pytest.mark.slow
@pytest.mark.parametrize("has_all", [False, True], ids=["flushed", "all"])
@pytest.mark.parametrize(("name", "step"), [one for one in STEPS if one[0] not in ("pooler", "replica_pooler")])
def test_a_power_cut_after_a_steps_effect_comes_to_the_same_end(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, step: str, has_all: bool
) -> None:
    subject = CASES[name][0](world, world.create().id)
    disk = Disk(world, monkeypatch, has_all=has_all)
    cut(world, disk, name, lambda procedure: laws.crashing(procedure, step))
    recover(world)
    assert status(world, subject) == CASES[name][1]
    assert nothing_is_held(world)
    assert world.leftovers() == []
    with world.store.read() as tx:
        failed = tx.execute(operation.select().where(operation.c.status == OperationStatus.FAILED)).all()
    assert failed == []


EXCHANGES = [("upgrade", undo) for undo in ("stop", "copy", "set_aside", "take_over")] + [
    ("restore", undo) for undo in ("capture", "settle", "stop", "set_aside", "take_over")
]


@pytest.mark.parametrize("is_repaired", [False, True])
@pytest.mark.parametrize(("name", "undo"), EXCHANGES)
def test_a_power_cut_after_an_undo_leaves_the_service_with_its_own_data(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, undo: str, is_repaired: bool
) -> None:
    """Also where what failed would succeed afterwards."""
    subject = CASES[name][0](world, world.create().id)
    before, disk = rows(world, subject), Disk(world, monkeypatch)

    def fail(procedure: Procedure) -> Procedure:
        return laws.failing(procedure, "serve", after=False)

    def crash(procedure: Procedure) -> Procedure:
        def run(work: Work[Any]) -> None:
            procedure.undo[undo](work)
            raise laws.Crash

        return replace(fail(procedure), undo={**procedure.undo, undo: run})

    cut(world, disk, name, crash)
    if not is_repaired:
        world.procedures[:] = laws.rewritten(world.procedures, name, fail)
    recover(world)
    assert (status(world, subject), rows(world, subject)) == (Status.READY, before)
    assert under_way(world, name).status == OperationStatus.FAILED
    assert nothing_is_held(world)
    assert world.leftovers() == []


# A case, a procedure in it, and a step that must not be followed by an earlier one again, because of what it does.
UNREPEATABLE = [
    ("upgrade", "upgrade", "set_aside"),  # the data is elsewhere
    ("upgrade", "upgrade", "open"),  # clients may have written
    ("upgrade", "try_upgrade", "end"),  # the data of the fork is gone
    ("restore", "restore", "set_aside"),
    ("restore", "restore", "open"),
    ("promote", "promote", "publish"),
    ("promote_logical", "promote_logical", "publish"),  # what the subscription has left out is forgotten
    ("set_wal_level", "set_wal_level", "open"),  # clients may have made slots
    ("drill", "drill", "drop"),
    ("import", "import", "analyze"),  # what was fetched is gone
    ("follow_logical", "follow_logical", "analyze"),
]


@pytest.mark.parametrize(("case", "name", "step"), UNREPEATABLE)
def test_a_power_cut_does_not_lead_back_to_before_a_step(
    world: World, monkeypatch: pytest.MonkeyPatch, case: str, name: str, step: str
) -> None:
    CASES[case][0](world, world.create().id)
    disk = Disk(world, monkeypatch)
    cut(world, disk, name, lambda procedure: laws.crashing(procedure, step))
    assert under_way(world, name).step == step


def follow_with_slot(world: World) -> Service:
    followers = world.backend.followers
    limited = {**followers.facts.settings, "max_slot_wal_keep_size": "1024"}
    followers.facts = replace(followers.facts, settings=limited)
    request = FollowRequest(CreateRequest("new"), FOLLOWED, followers.password, creates_slot=True)
    return world.settle(follow_service(world.plane, world.project.id, request))


@pytest.mark.parametrize("has_all", [False, True], ids=["flushed", "all"])
def test_a_power_cut_does_not_take_away_what_a_promotion_has_left_in_the_source(
    world: World, monkeypatch: pytest.MonkeyPatch, has_all: bool
) -> None:
    followers, service = world.backend.followers, follow_with_slot(world)
    followers.problem = "The source cannot be reached."
    promote_service(world.plane, world.project.id, service.id, lsn=None, drain=False, neutralize=False)
    disk, forget = Disk(world, monkeypatch, has_all=has_all), followers.forget

    def crash_afterwards(service_id: str) -> None:
        forget(service_id)
        raise laws.Crash

    with monkeypatch.context() as patched:
        patched.setattr(followers, "forget", crash_afterwards)
        cut(world, disk, "promote", lambda procedure: procedure)
    recover(world)
    report = get_service(world.plane, world.project.id, service.id).report or {}
    assert "stays in the source" in report["promoted"]["left_in_source"]
    assert (followers.kept, status(world, service.id)) == ({}, Status.READY)


def test_a_power_cut_does_not_take_away_what_a_deletion_has_left_in_the_source(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    followers, service = world.backend.followers, follow_with_slot(world)
    followers.problem = "The source cannot be reached."

    def crash(_service_id: str) -> None:
        raise laws.Crash

    delete_service(world.plane, world.project.id, service.id)
    disk = Disk(world, monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(world.backend.servers, "destroy", crash)
        cut(world, disk, "delete", lambda procedure: procedure)
    followers.slots.clear()  # another run would not find it
    recover(world)
    with world.store.read() as tx:
        deletion = tx.execute(operation.select().where(operation.c.procedure == "delete")).one()
    assert "stays in the source" in str(deletion.state["left_in_source"])


def test_of_a_fork_only_the_request_and_the_release_of_its_parent_are_early(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, write, steps = world.create(), world.store.write, list[str]()

    @contextmanager
    def noting(*, durable: bool = True, early: bool = False, patient: bool = False) -> Iterator[sa.Connection]:
        with write(durable=durable, early=early, patient=patient) as tx:
            yield tx
            if early:
                steps.append(tx.scalars(sa.select(operation.c.step).where(operation.c.procedure == "fork")).one())

    monkeypatch.setattr(world.store, "write", noting)
    fork = world.fork(parent)
    assert steps == ["capture", "recover"]
    assert status(world, fork.id) is Status.READY
