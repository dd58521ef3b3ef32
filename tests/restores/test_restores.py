"""Restores in place over the memory backend: what the service has then, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from harness.waiting import eventually
from ramet.control import replica_sets
from ramet.control.duties.health import Health
from ramet.control.poolers import enable_pooler
from ramet.control.protection import set_protection
from ramet.control.replica_sets import ReplicaSetRequest
from ramet.control.replication import set_wal_level
from ramet.control.services import (
    delete_service,
    list_services,
    optimize_service,
    set_environment,
    stop_service,
    update_password,
)
from ramet.control.sleep import set_sleep, submit_sleep
from ramet.errors import Invalid, WrongState
from ramet.ids import new_id
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.passwords import Secret
from ramet.model.service import Service, status_of
from ramet.model.status import OperationStatus, Status
from ramet.model.wal_level import WalLevel, wal_level_of
from ramet.operations.procedure import Wait, Work
from ramet.operations.worker import Worker
from ramet.procedures.servers import server_of
from ramet.procedures.state import RestoreState
from ramet.restores import verbs
from ramet.restores.verbs import RestoreRequest
from ramet.store import services, snapshots
from tests import procedure_laws as laws
from tests.restores.restoring import fork_at, now, restore, seen
from tests.worlds import World


def test_the_service_has_the_data_of_a_time_at_its_own_endpoint(world: World, shop: Service) -> None:
    before = now(world)
    world.backend.commit(shop.id, "mistake")
    found = restore(world, shop, RestoreRequest(target_time=before))
    after = seen(world, shop.id)
    assert (found.status, found.error, found.verb) == (OperationStatus.SUCCEEDED, None, "restore")
    assert found.stopped_seconds is not None
    assert (after.id, after.port, status_of(after)) == (shop.id, shop.port, Status.READY)
    assert world.backend.values(shop.id) == ["one"]
    assert world.leftovers() == []


def test_times_before_and_after_a_restore_can_both_be_forked(world: World, shop: Service) -> None:
    first = now(world)
    world.backend.commit(shop.id, "two")
    second = now(world)
    restore(world, shop, RestoreRequest(target_time=first))
    world.backend.commit(shop.id, "three")
    third = now(world)
    restore(world, shop, RestoreRequest(target_time=second, keeps=False))
    assert world.backend.values(shop.id) == ["one", "two"]
    assert [fork_at(world, shop, time) for time in (first, second, third)] == [
        ["one"],
        ["one", "two"],
        ["one", "three"],
    ]


def test_the_password_of_now_stays_in_force(world: World, shop: Service) -> None:
    before = now(world)
    update_password(world.plane, world.project.id, shop.id, Secret("of today"))
    restore(world, shop, RestoreRequest(target_time=before))
    assert world.backend.servers.has_password(server_of(shop), Secret("of today"))


def test_a_restore_from_another_service_keeps_both(world: World, shop: Service) -> None:
    other = world.create("other")
    world.backend.commit(other.id, "of other")
    restore(world, shop, RestoreRequest(from_service_id=other.id))
    assert world.backend.values(shop.id) == world.backend.values(other.id) == ["of other"]


def test_exactly_one_state_is_asked_for(world: World, shop: Service) -> None:
    for request in (RestoreRequest(), RestoreRequest(target_time=now(world), snapshot="a")):
        with pytest.raises(Invalid, match="Exactly one of"):
            restore(world, shop, request)


def test_prod_needs_its_name(world: World, shop: Service) -> None:
    set_environment(world.plane, world.project.id, shop.id, Environment.PROD)
    before = now(world)
    for confirm in (None, "other"):
        with pytest.raises(Invalid, match="is a PROD service") as refused:
            restore(world, shop, RestoreRequest(target_time=before, confirm=confirm))
        assert "'shop'" in str(refused.value.details)
    assert restore(world, shop, RestoreRequest(target_time=before, confirm="shop")).error is None


def test_a_repeated_request_with_the_same_key_is_the_same_restore(world: World, shop: Service) -> None:
    request = RestoreRequest(target_time=now(world))
    first, again = restore(world, shop, request, "key"), restore(world, shop, request, "key")
    assert first.id == again.id
    assert len(verbs.list_restores(world.plane, world.project.id, shop.id)) == 1
    with pytest.raises(Invalid, match="was used for"):
        restore(world, shop, RestoreRequest(target_time=now(world)), "key")


def test_a_second_restore_waits_for_the_first(world: World, shop: Service) -> None:
    request = RestoreRequest(target_time=now(world))
    verbs.restore_service(world.plane, world.project.id, shop.id, request)
    assert status_of(seen(world, shop.id)) is Status.READY
    with pytest.raises(WrongState, match="is under way"):
        verbs.restore_service(world.plane, world.project.id, shop.id, request)


def test_nothing_that_the_exchange_decides_is_changed_meanwhile(world: World, shop: Service) -> None:
    verbs.restore_service(world.plane, world.project.id, shop.id, RestoreRequest(target_time=now(world)))
    changes: list[Callable[[], object]] = [
        lambda: set_sleep(world.plane, world.project.id, shop.id, 900),
        lambda: set_wal_level(world.plane, world.project.id, shop.id, WalLevel.LOGICAL),
    ]
    for change in changes:
        with pytest.raises(WrongState, match="is under way"):
            change()
    world.worker.run_until_idle()
    for change in changes:
        change()
        world.worker.run_until_idle()
    assert wal_level_of(seen(world, shop.id).settings) is WalLevel.LOGICAL


@pytest.mark.parametrize("asleep", [False, True])
def test_a_service_that_falls_asleep_is_restored_awake_and_may_sleep_again(
    world: World, shop: Service, asleep: bool
) -> None:
    set_sleep(world.plane, world.project.id, shop.id, 900)
    world.worker.run_until_idle()
    before = now(world)
    world.backend.commit(shop.id, "mistake")
    if asleep:
        assert submit_sleep(world.plane, shop.id)
        world.worker.run_until_idle()
    found = restore(world, shop, RestoreRequest(target_time=before))
    after = seen(world, shop.id)
    assert (found.error, status_of(after), after.asleep) == (None, Status.READY, False)
    assert world.backend.values(shop.id) == ["one"]
    assert (after.sleep_after_seconds, after.server_port) == (900, seen(world, shop.id).server_port)
    assert submit_sleep(world.plane, shop.id)
    world.worker.run_until_idle()
    previous = seen(world, str(found.previous_service_id))
    assert (previous.sleep_after_seconds, status_of(previous)) == (None, Status.PAUSED)


def pause(world: World, service: Service) -> None:
    stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()


def test_a_paused_service_is_resumed_with_the_restored_data_and_the_passwords_of_now(
    world: World, shop: Service
) -> None:
    before = now(world)
    world.backend.commit(shop.id, "mistake")
    update_password(world.plane, world.project.id, shop.id, Secret("of today"))
    pause(world, shop)
    found = restore(world, shop, RestoreRequest(target_time=before))
    assert (found.error, status_of(seen(world, shop.id)), world.backend.values(shop.id)) == (
        None,
        Status.READY,
        ["one"],
    )
    assert world.backend.servers.has_password(server_of(shop), Secret("of today"))
    assert world.leftovers() == []


def test_a_service_that_is_paused_during_the_preparation_is_resumed_too(world: World, shop: Service) -> None:
    before = now(world)
    world.backend.commit(shop.id, "mistake")
    verbs.restore_service(world.plane, world.project.id, shop.id, RestoreRequest(target_time=before))
    pause(world, shop)
    assert (status_of(seen(world, shop.id)), world.backend.values(shop.id)) == (Status.READY, ["one"])


def test_a_service_of_another_version_is_no_source(world: World, shop: Service) -> None:
    other = world.create("other")
    with world.store.write() as tx:
        services.update_service(tx, other.id, pg_major=15)
    with pytest.raises(Invalid, match="with PostgreSQL 15"):
        restore(world, shop, RestoreRequest(from_service_id=other.id))


def test_a_service_that_was_deleted_meanwhile_stays_deleted(world: World, shop: Service) -> None:
    verbs.restore_service(world.plane, world.project.id, shop.id, RestoreRequest(target_time=now(world)))
    delete_service(world.plane, world.project.id, shop.id)
    world.worker.run_until_idle()
    assert list_services(world.plane, world.project.id) == []
    assert world.backend.volumes == {}


def test_a_service_that_is_protected_during_the_preparation_keeps_its_data(world: World, shop: Service) -> None:
    target = now(world)
    world.backend.commit(shop.id, "two")
    begun = verbs.restore_service(world.plane, world.project.id, shop.id, RestoreRequest(target_time=target))
    set_protection(world.plane, world.project.id, shop.id, protected=True)
    world.worker.run_until_idle()
    found = verbs.get_restore(world.plane, world.project.id, shop.id, begun.id)
    assert found.error is not None
    assert "was protected before its data was replaced" in found.error
    assert status_of(seen(world, shop.id)) is Status.READY
    assert world.backend.values(shop.id) == ["one", "two"]
    assert list(world.backend.volumes) == [shop.id]


def test_a_service_that_is_down_can_be_restored(world: World, shop: Service) -> None:
    before = now(world)
    world.backend.crash(shop.id)
    with world.store.write() as tx:
        services.update_service(tx, shop.id, down_reason="Its server is not running.")
    world.backend.volume(shop.id).running = True  # forks read it while the control plane believes that it is down
    found = restore(world, shop, RestoreRequest(target_time=before))
    assert (found.error, status_of(seen(world, shop.id))) == (None, Status.READY)


def test_replicas_show_the_restored_rows(world: World, shop: Service) -> None:
    request = ReplicaSetRequest("reports", 2, 500, 2)
    made = replica_sets.create_set(world.plane, world.project.id, shop.id, request)
    world.worker.run_until_idle()
    before = now(world)
    world.backend.commit(shop.id, "mistake")
    restore(world, shop, RestoreRequest(target_time=before))
    Health(world.plane).inspect()
    world.worker.run_until_idle()
    assert [world.backend.values(node.id) for node in made.nodes] == [["one"], ["one"]]
    assert status_of(seen(world, made.id)) is Status.READY


def test_the_pooler_stays(world: World, shop: Service) -> None:
    enable_pooler(world.plane, world.project.id, shop.id)
    world.worker.run_until_idle()
    port = seen(world, shop.id).pooler_port
    found = restore(world, shop, RestoreRequest(target_time=now(world)))
    assert seen(world, shop.id).pooler_port == world.backend.volume(shop.id).pooler_port == port is not None
    assert seen(world, str(found.previous_service_id)).pooler_port is None


@pytest.mark.parametrize("hours", [1, 20])
def test_a_restore_waits_for_what_is_under_way_as_long_as_that_takes(world: World, shop: Service, hours: int) -> None:
    optimize_service(world.plane, world.project.id, shop.id)
    state = RestoreState(
        parent_id=shop.id, strategy=ForkStrategy.NOW, quiet=False, verb="restore", keeps_roles=True, copy_id="copy",
        snapshot_id="snapshot", previous_id="previous", pg_major=shop.pg_major,
    )  # fmt: skip
    (claim,) = (one.steps["claim"] for one in world.procedures if one.name == "restore")

    def progress_after(waited: timedelta) -> str:
        begun = world.plane.clock() - waited
        waiting = claim(Work("operation", shop.id, "claim", state, 1, begun, begun))
        assert isinstance(waiting, Wait)
        return waiting.progress

    waited = timedelta(hours=hours)
    assert progress_after(waited).startswith(f"service {shop.id} is OPTIMIZING for {hours * 60} min")
    assert progress_after(waited) != progress_after(waited + timedelta(minutes=1))


STEPS = ["capture", "recover", "boot", "claim", "settle", "stop", "set_aside", "take_over", "serve"]


@pytest.mark.slow
@pytest.mark.parametrize("status", [Status.READY, Status.PAUSED])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_failure_at_a_step_changes_nothing(
    world: World, shop: Service, step: str, after: bool, status: Status
) -> None:
    before = now(world)
    world.backend.commit(shop.id, "later")
    if status is Status.PAUSED:
        pause(world, shop)
    with world.store.read() as tx:
        known = {one.id for one in snapshots.list_snapshots(tx, shop.id)}
    timeline = world.backend.volume(shop.id).last_timeline
    begun = verbs.restore_service(world.plane, world.project.id, shop.id, RestoreRequest(target_time=before))
    rewritten = laws.rewritten(world.procedures, "restore", lambda one: laws.failing(one, step, after=after))
    Worker(world.store, rewritten).run_until_idle()
    found = verbs.get_restore(world.plane, world.project.id, shop.id, begun.id)
    assert (found.status, found.previous_service_id) == (OperationStatus.FAILED, None)
    assert [row.value for row in world.backend.volume(shop.id).rows] == ["one", "later"]
    assert world.backend.volume(shop.id).last_timeline == timeline
    assert (status_of(seen(world, shop.id)), world.backend.volume(shop.id).running) == (status, status is Status.READY)
    assert [one.id for one in list_services(world.plane, world.project.id)] == [shop.id]
    with world.store.read() as tx:
        assert {one.id for one in snapshots.list_snapshots(tx, shop.id)} == known
    assert world.leftovers() == []


def test_replicas_show_the_restored_rows_also_when_the_service_could_not_be_opened(world: World, shop: Service) -> None:
    request = ReplicaSetRequest("reports", 1, 500, 2)
    made = replica_sets.create_set(world.plane, world.project.id, shop.id, request)
    world.worker.run_until_idle()
    before = now(world)
    world.backend.commit(shop.id, "later")
    verbs.restore_service(world.plane, world.project.id, shop.id, RestoreRequest(target_time=before))
    procedures = laws.rewritten(world.procedures, "restore", lambda one: laws.failing(one, "open", after=False))
    failing = Worker(world.store, procedures)

    def is_down() -> bool:
        failing.run_until_idle(limit_seconds=0.2)  # the replicas wait on for the service
        return seen(world, shop.id).down_reason is not None

    eventually(is_down, "the service that could not be opened")
    world.health.inspect()
    world.worker.run_until_idle()
    assert world.backend.volume(shop.id).is_open
    assert [[row.value for row in world.backend.volume(node.id).rows] for node in made.nodes] == [["one"]]


@pytest.mark.parametrize(("step", "is_replaced"), [("take_over", False), ("open", True)])
def test_a_restore_that_failed_tells_whether_the_data_is_replaced(
    world: World, shop: Service, step: str, is_replaced: bool
) -> None:
    begun = verbs.restore_service(world.plane, world.project.id, shop.id, RestoreRequest(target_time=now(world)))
    procedures = laws.rewritten(world.procedures, "restore", lambda one: laws.failing(one, step, after=False))
    Worker(world.store, procedures).run_until_idle()
    found = verbs.get_restore(world.plane, world.project.id, shop.id, begun.id)
    assert (found.status, found.data_replaced) == (OperationStatus.FAILED, is_replaced)


def test_a_backend_that_cannot_replace_data_says_so(world: World, shop: Service) -> None:
    world.backend.replacements.impossible = "This backend cannot."
    with pytest.raises(Invalid, match="This backend cannot"):
        restore(world, shop, RestoreRequest(target_time=now(world)))


def test_a_restore_that_nobody_made_is_not_found(world: World, shop: Service) -> None:
    with pytest.raises(Exception, match="has no restore"):
        verbs.get_restore(replace(world.plane), world.project.id, shop.id, new_id())
