"""The state from before a restore in place: a paused service, from which the restore is undone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ramet.control.forks import plan_fork
from ramet.control.labels import set_labels
from ramet.control.life_spans import extend_service
from ramet.control.requests import ForkRequest
from ramet.control.services import (
    delete_service,
    list_services,
    set_environment,
    start_service,
)
from ramet.errors import Exhausted
from ramet.model.archive import is_archived
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.life_span import LifeSpan, LifeTerms
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.model.warm_forks import Pool, pool_of, with_pool
from ramet.operations.worker import Worker
from ramet.restores import verbs
from ramet.restores.verbs import RestoreRequest
from ramet.store import history, operations, services
from tests import procedure_laws as laws
from tests.restores.restoring import now, restore, seen
from tests.worlds import World


def test_what_was_replaced_is_a_paused_service_from_which_the_restore_is_undone(world: World, shop: Service) -> None:
    before = now(world)
    world.backend.commit(shop.id, "later")
    found = restore(world, shop, RestoreRequest(target_time=before))
    previous = seen(world, str(found.previous_service_id))
    assert previous.name.startswith("shop-before-restore-")
    assert status_of(previous) is Status.PAUSED
    world.backend.commit(shop.id, "lost by the undo")
    restore(world, shop, RestoreRequest(from_service_id=previous.id))
    assert world.backend.values(shop.id) == ["one", "later"]
    start_service(world.plane, world.project.id, previous.id)
    world.worker.run_until_idle()
    assert world.backend.values(previous.id) == ["one", "later"]


def test_what_was_replaced_keeps_no_warm_forks(world: World, shop: Service) -> None:
    with world.store.write() as tx:
        services.update_service(tx, shop.id, settings=with_pool(shop.settings, Pool(3)))
    found = restore(world, shop, RestoreRequest(target_time=now(world)))
    assert pool_of(seen(world, str(found.previous_service_id))) is None
    assert pool_of(seen(world, shop.id)) == Pool(3)


def test_a_fork_of_the_last_snapshot_of_what_was_replaced_takes_one(world: World, shop: Service) -> None:
    found = restore(world, shop, RestoreRequest(target_time=now(world)))
    wanted = ForkRequest(ForkStrategy.LAST_SNAPSHOT)
    assert plan_fork(world.plane, world.project.id, str(found.previous_service_id), wanted).point.awaits_snapshot
    fork = world.fork(seen(world, str(found.previous_service_id)), wanted)
    assert (status_of(fork), world.backend.values(fork.id)) == (Status.READY, ["one"])


def test_the_state_before_is_found_by_the_labels_expires_with_the_service_and_is_not_archived(
    world: World, shop: Service
) -> None:
    set_labels(world.plane, world.project.id, shop.id, {"pr": "42"})
    extend_service(world.plane, world.project.id, shop.id, LifeTerms(ttl_seconds=7200))
    set_environment(world.plane, world.project.id, shop.id, Environment.PROD)
    found = restore(world, shop, RestoreRequest(target_time=now(world), confirm="shop"))
    previous, after = seen(world, str(found.previous_service_id)), seen(world, shop.id)
    assert previous.life_span is not None
    assert after.life_span is not None
    assert (previous.labels, previous.life_span.expires_at) == ({"pr": "42"}, after.life_span.expires_at)
    assert (is_archived(previous), is_archived(after)) == (False, True)
    assert not previous.protected


@pytest.mark.parametrize("is_opened", [True, False])
def test_the_state_before_of_a_service_that_expires_by_idleness_expires_as_long_after_the_restore(
    world: World, shop: Service, is_opened: bool
) -> None:
    extend_service(world.plane, world.project.id, shop.id, LifeTerms(idle_ttl_seconds=600))
    verbs.restore_service(world.plane, world.project.id, shop.id, RestoreRequest(target_time=now(world)))
    failing = laws.rewritten(world.procedures, "restore", lambda one: laws.failing(one, "open", after=False))
    Worker(world.store, world.procedures if is_opened else failing).run_until_idle()
    (previous,) = (one for one in list_services(world.plane, world.project.id) if one.id != shop.id)
    assert previous.ready_at is not None
    assert previous.life_span == LifeSpan(previous.ready_at + timedelta(seconds=600), ttl_seconds=600)


def test_an_undo_keeps_passwords_also_when_the_history_has_forgotten_the_restore(world: World, shop: Service) -> None:
    found = restore(world, shop, RestoreRequest(target_time=now(world)))
    with world.store.write() as tx:
        history.remove_operations(tx, datetime.max.replace(tzinfo=UTC), 500)
    assert verbs.list_restores(world.plane, world.project.id, shop.id) == []
    restore(world, shop, RestoreRequest(from_service_id=found.previous_service_id))
    other = world.create("other")
    restore(world, shop, RestoreRequest(from_service_id=other.id))
    with world.store.read() as tx:
        states = [one.state for one in operations.of_subject(tx, shop.id) if one.procedure == "restore"]
    assert {state["parent_id"]: (state["keeps_roles"], state["quiet"]) for state in states} == {
        found.previous_service_id: (True, False),
        other.id: (False, True),
    }


def test_states_before_of_the_same_second_have_names_of_their_own(world: World, shop: Service) -> None:
    before, at = now(world), world.plane.clock()
    plane = replace(world.plane, clock=lambda: at)
    for _ in range(3):
        verbs.restore_service(plane, world.project.id, shop.id, RestoreRequest(target_time=before))
        world.worker.run_until_idle()
    names = {one.name for one in list_services(world.plane, world.project.id)}
    stem = f"shop-before-restore-{at:%Y%m%d-%H%M%S}"
    assert names == {"shop", stem, f"{stem}-2", f"{stem}-3"}


def test_the_state_before_needs_a_port_from_the_beginning(world: World, shop: Service) -> None:
    placement = replace(world.plane.placement, ports=range(shop.port, shop.port + 1))
    plane, before = replace(world.plane, placement=placement), now(world)
    with pytest.raises(Exhausted) as refused:
        verbs.restore_service(plane, world.project.id, shop.id, RestoreRequest(target_time=before))
    assert refused.value.code == "NO_FREE_PORT"
    verbs.restore_service(plane, world.project.id, shop.id, RestoreRequest(target_time=before, keeps=False))


def test_a_restore_whose_ports_were_taken_says_how_it_needs_none(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = verbs.restore_service(world.plane, world.project.id, shop.id, RestoreRequest(target_time=now(world)))
    monkeypatch.setattr(services, "used_ports", lambda _: set(world.plane.placement.ports))
    world.worker.run_until_idle()
    found = verbs.get_restore(world.plane, world.project.id, shop.id, begun.id)
    assert "or do not keep the state before." in (found.error or "")
    assert "--" not in (found.error or "")  # a reset and a rewind have another option for that


def test_no_limit_of_the_project_refuses_a_restore_and_the_state_before_counts(world: World, shop: Service) -> None:
    world.projects.change_limits(world.project.id, {"max_services": 1})
    found = restore(world, shop, RestoreRequest(target_time=now(world)))
    assert found.error is None
    with pytest.raises(Exhausted, match="may have 1 services, and would have 3"):
        world.create("other")
    delete_service(world.plane, world.project.id, str(found.previous_service_id))
    world.worker.run_until_idle()
    with pytest.raises(Exhausted, match="would have 2"):
        world.create("other")
