"""Upgrades of services over the memory backend: what remains, what is refused, and that a failure changes nothing."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.memory.backend import MemoryBackend
from ramet.control import replica_sets
from ramet.control.duties.archive import OffHostArchive
from ramet.control.duties.health import Health
from ramet.control.poolers import enable_pooler
from ramet.control.protection import set_protection
from ramet.control.replica_sets import ReplicaSetRequest
from ramet.control.requests import ForkRequest
from ramet.control.restore import take_snapshot
from ramet.control.services import delete_service, get_service, list_services, start_service
from ramet.errors import Failed, Invalid, NotFound
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.life_span import LifeSpan, LifeTerms
from ramet.model.service import Service, status_of
from ramet.model.status import OperationStatus, Status
from ramet.model.timestamps import rfc3339
from ramet.model.warm_forks import Pool, pool_of, with_pool
from ramet.operations.procedure import Outcome, Procedure, Wait, Work
from ramet.operations.worker import Worker
from ramet.recovery.catalogue import entry_of, service_of
from ramet.restores.verbs import RestoreRequest, restore_service
from ramet.store import operations, services, snapshots
from ramet.upgrades.verbs import Upgrade, UpgradeRequest, get_upgrade, upgrade_service
from tests import procedure_laws as laws
from tests.worlds import Hurried, World, fork_service, make_world

NEW = 19
LAST = ForkRequest(ForkStrategy.LAST_SNAPSHOT)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = make_world(tmp_path, MemoryBackend())
    yield made
    made.store.close()


@pytest.fixture
def shop(world: World) -> Service:
    made = world.create()
    world.backend.commit(made.id, "one")
    return made


def upgraded(world: World, service: Service) -> Upgrade:
    accepted = upgrade_service(world.plane, world.project.id, service.id, UpgradeRequest(NEW))
    world.worker.run_until_idle()
    return get_upgrade(world.plane, world.project.id, service.id, accepted.service.id)


def seen(world: World, service_id: str) -> Service:
    return get_service(world.plane, world.project.id, service_id)


def ids_of_snapshots(world: World, service_id: str) -> set[str]:
    with world.store.read() as tx:
        return {one.id for one in snapshots.list_snapshots(tx, service_id)}


def test_the_state_before_keeps_no_warm_forks(world: World, shop: Service) -> None:
    with world.store.write() as tx:
        services.update_service(tx, shop.id, settings=with_pool(shop.settings, Pool(3)))
    found = upgraded(world, shop)
    assert pool_of(seen(world, str(found.previous_service_id))) is None
    assert pool_of(seen(world, shop.id)) == Pool(3)


def test_the_service_keeps_id_and_endpoint_and_the_state_before_is_paused(world: World, shop: Service) -> None:
    known = ids_of_snapshots(world, shop.id)
    found = upgraded(world, shop)
    assert (found.status, found.error) == (OperationStatus.SUCCEEDED, None)
    after, before = seen(world, shop.id), seen(world, str(found.previous_service_id))
    assert (after.pg_major, after.port, status_of(after)) == (NEW, shop.port, Status.READY)
    assert (before.pg_major, before.name, status_of(before)) == (shop.pg_major, "shop-before-19", Status.PAUSED)
    assert known <= ids_of_snapshots(world, before.id)
    assert ids_of_snapshots(world, after.id).isdisjoint(known)
    world.backend.commit(shop.id, "two")
    start_service(world.plane, world.project.id, before.id)
    world.worker.run_until_idle()
    assert (world.backend.values(shop.id), world.backend.values(before.id)) == (["one", "two"], ["one"])


def test_the_state_before_has_the_labels_of_the_service_and_expires_with_it(world: World, shop: Service) -> None:
    request = ForkRequest(ForkStrategy.NOW, labels={"pr": "42"}, life=LifeTerms(ttl_seconds=3600))
    preview = world.fork(shop, request)
    before = seen(world, str(upgraded(world, preview).previous_service_id))
    assert before.labels == {"pr": "42"}
    assert (before.life_span, preview.life_span is not None) == (preview.life_span, True)


@pytest.mark.parametrize("is_opened", [True, False])
def test_the_state_before_of_a_service_that_expires_by_idleness_expires_as_long_after_the_upgrade(
    world: World, shop: Service, is_opened: bool
) -> None:
    preview = world.fork(shop, ForkRequest(ForkStrategy.NOW, life=LifeTerms(idle_ttl_seconds=600)))
    accepted = upgrade_service(world.plane, world.project.id, preview.id, UpgradeRequest(NEW))
    failing = laws.rewritten(world.procedures, "upgrade", lambda one: laws.failing(one, "open", after=False))
    Worker(world.store, world.procedures if is_opened else failing).run_until_idle()
    before = seen(world, accepted.service.id)
    assert before.ready_at is not None
    assert before.life_span == LifeSpan(before.ready_at + timedelta(seconds=600), ttl_seconds=600)


def test_the_state_before_of_a_protected_service_does_not_expire(world: World, shop: Service) -> None:
    kept = world.fork(shop, ForkRequest(ForkStrategy.NOW, life=LifeTerms(ttl_seconds=3600)))
    set_protection(world.plane, world.project.id, kept.id, protected=True)
    before = seen(world, str(upgraded(world, kept).previous_service_id))
    assert (before.life_span, seen(world, kept.id).life_span) == (None, kept.life_span)


def test_both_can_be_forked_and_deleted(world: World, shop: Service) -> None:
    found = upgraded(world, shop)
    before = seen(world, str(found.previous_service_id))
    assert [world.fork(one).pg_major for one in (seen(world, shop.id), before)] == [NEW, shop.pg_major]
    delete_service(world.plane, world.project.id, before.id)
    world.worker.run_until_idle()
    assert world.backend.values(shop.id) == ["one"]
    assert world.leftovers() == []


def test_a_pooler_stays(world: World, shop: Service) -> None:
    enable_pooler(world.plane, world.project.id, shop.id)
    world.worker.run_until_idle()
    port = seen(world, shop.id).pooler_port
    upgraded(world, shop)
    assert world.backend.volumes[shop.id].pooler_port == port is not None


def test_rows_that_differ_end_the_upgrade_before_the_service_is_stopped(world: World, shop: Service) -> None:
    world.backend.upgrades.loses_rows = True
    found = upgraded(world, shop)
    assert found.status is OperationStatus.FAILED
    assert "tsdb.public.rows are not the same" in (found.error or "")
    assert found.report["row_differences"]
    assert world.backend.values(shop.id) == ["one"]
    assert seen(world, shop.id).pg_major == shop.pg_major


@pytest.mark.parametrize("step", ["stop", "upgrade", "set_aside", "take_over", "serve"])
def test_a_failure_of_the_upgrade_itself_leaves_the_service_as_it_was(world: World, shop: Service, step: str) -> None:
    taken = take_snapshot(world.plane, world.project.id, shop.id, "by hand")
    world.worker.run_until_idle()
    accepted = upgrade_service(world.plane, world.project.id, shop.id, UpgradeRequest(NEW))
    procedures = laws.rewritten(world.procedures, "upgrade", lambda one: laws.failing(one, step, after=True))
    Worker(world.store, procedures).run_until_idle()
    Health(world.plane).inspect()
    after = seen(world, shop.id)
    assert (after.pg_major, status_of(after), after.down_reason) == (shop.pg_major, Status.READY, None)
    assert world.backend.values(shop.id) == ["one"]
    assert taken.id in ids_of_snapshots(world, shop.id)
    assert after.archived_as is None
    with world.store.read() as tx:
        failed = services.get_service(tx, accepted.service.id)
    assert failed is not None
    assert "Injected" in (failed.failure or "")
    found = get_upgrade(world.plane, world.project.id, shop.id, accepted.service.id)
    assert (found.status, found.previous_service_id) == (OperationStatus.FAILED, None)
    assert world.leftovers() == []
    assert upgraded(world, after).status is OperationStatus.SUCCEEDED


@pytest.mark.parametrize("step", ["copy", "upgrade", "set_aside", "serve", "open"])
def test_a_deletion_cancels_the_upgrade_of_a_service(world: World, shop: Service, step: str) -> None:
    def delete_at(procedure: Procedure) -> Procedure:
        def run(work: Work[Any]) -> Outcome:
            delete_service(world.plane, world.project.id, shop.id)
            return Wait(0.01, "waiting")

        return replace(procedure, steps={**procedure.steps, step: run})

    upgrade_service(world.plane, world.project.id, shop.id, UpgradeRequest(NEW))
    Worker(world.store, laws.rewritten(world.procedures, "upgrade", delete_at)).run_until_idle()
    left = [one for one in list_services(world.plane, world.project.id) if one.failed_at is None]
    assert [(one.name, status_of(one)) for one in left] == [("shop-before-19", Status.PAUSED)] * (step == "open")
    assert world.leftovers() == []


def test_the_deletion_of_a_trial_waits_for_the_upgrade_of_its_parent(world: World, shop: Service) -> None:
    trial = upgrade_service(world.plane, world.project.id, shop.id, UpgradeRequest(NEW)).service

    def delete_at(procedure: Procedure) -> Procedure:
        def run(work: Work[Any]) -> Outcome:
            delete_service(world.plane, world.project.id, trial.id)
            return procedure.steps["serve"](work)

        return replace(procedure, steps={**procedure.steps, "serve": run})

    Worker(world.store, laws.rewritten(world.procedures, "upgrade", delete_at)).run_until_idle()
    found = get_upgrade(world.plane, world.project.id, shop.id, trial.id)
    after = seen(world, shop.id)
    assert (found.status, after.pg_major, status_of(after)) == (OperationStatus.SUCCEEDED, NEW, Status.READY)
    assert world.backend.volumes[shop.id].is_open
    assert world.backend.values(shop.id) == ["one"]
    assert [one.id for one in list_services(world.plane, world.project.id)] == [shop.id]
    assert world.leftovers() == []


def test_a_service_that_cannot_be_started_again_after_a_failure_can_be_deleted(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = world.backend.servers.start

    def lost(server: Server, **phase: bool) -> None:
        if server.service_id == shop.id:
            raise Failed("VOLUME_LOST", "Its volume is lost", "It cannot be started.")
        start(server, **phase)

    monkeypatch.setattr(world.backend.servers, "start", lost)
    upgrade_service(world.plane, world.project.id, shop.id, UpgradeRequest(NEW))
    procedures = laws.rewritten(world.procedures, "upgrade", lambda one: laws.failing(one, "upgrade", after=False))
    Worker(world.store, procedures).run_until_idle()
    assert status_of(seen(world, shop.id)) is Status.UNSTABLE
    delete_service(world.plane, world.project.id, shop.id)
    Hurried(world.store, world.procedures).run_until_idle(horizon_seconds=10.0)
    with pytest.raises(NotFound):
        seen(world, shop.id)
    assert world.leftovers() == []


@pytest.mark.parametrize("is_half_open", [False, True])
def test_a_service_that_cannot_be_opened_after_its_upgrade_keeps_its_new_data_and_is_started_again(
    world: World, shop: Service, is_half_open: bool
) -> None:
    upgrade_service(world.plane, world.project.id, shop.id, UpgradeRequest(NEW))
    procedures = laws.rewritten(world.procedures, "upgrade", lambda one: laws.failing(one, "open", after=is_half_open))
    Worker(world.store, procedures).run_until_idle()
    after = seen(world, shop.id)
    assert (after.pg_major, status_of(after)) == (NEW, Status.UNSTABLE)
    assert "It could not be opened after its upgrade" in (after.down_reason or "")
    assert {one.name for one in list_services(world.plane, world.project.id)} == {"shop", "shop-before-19"}
    Health(world.plane).inspect()
    world.worker.run_until_idle()
    assert status_of(seen(world, shop.id)) is Status.READY
    assert world.backend.volumes[shop.id].is_open


def test_forks_of_before_an_upgrade_do_not_count_for_the_last_snapshot(world: World, shop: Service) -> None:
    target = RestoreRequest(target_time=rfc3339(world.backend.clock()))
    restore_service(world.plane, world.project.id, shop.id, target)
    world.worker.run_until_idle()
    world.fork(seen(world, shop.id))  # of a later timeline than what begins with the upgrade
    upgraded(world, shop)
    (first,) = ids_of_snapshots(world, shop.id)
    last = world.fork(seen(world, shop.id), LAST)
    assert last.origin is not None
    assert last.origin.snapshot_id == first


def test_rule_27_the_last_snapshot_holds_what_a_fork_held_that_was_upgraded_since(world: World, shop: Service) -> None:
    fork = world.fork(shop)
    assert upgraded(world, fork).status is OperationStatus.SUCCEEDED
    assert world.backend.values(world.fork(shop, LAST).id) == ["one"]


def test_rule_27_holds_after_an_upgrade_that_was_undone(world: World, shop: Service) -> None:
    world.fork(shop)
    upgrade_service(world.plane, world.project.id, shop.id, UpgradeRequest(NEW))
    procedures = laws.rewritten(world.procedures, "upgrade", lambda one: laws.failing(one, "serve", after=True))
    Worker(world.store, procedures).run_until_idle()
    assert world.backend.values(world.fork(seen(world, shop.id), LAST).id) == ["one"]


def refusal(world: World, service: Service) -> str:
    with pytest.raises(Invalid) as raised:
        upgrade_service(world.plane, world.project.id, service.id, UpgradeRequest(NEW))
    assert raised.value.code == "UPGRADE_REFUSED"
    return raised.value.message


def test_what_an_upgrade_would_break_is_refused(world: World, shop: Service) -> None:
    world.backend.volumes[shop.id].slots.add("elsewhere")
    assert "replication slots elsewhere" in refusal(world, shop)
    assert world.backend.volumes[shop.id].is_open
    world.backend.volumes[shop.id].slots.clear()
    replica_sets.create_set(world.plane, world.project.id, shop.id, ReplicaSetRequest("reports", 1, 500, 2))
    world.worker.run_until_idle()
    assert "read replica set reports" in refusal(world, shop)


@pytest.fixture
def archived(world: World, shop: Service) -> Service:
    """A service that the off-host archive has."""
    world.backend.archive.location = "memory://archive"
    with world.store.write() as tx:
        services.update_service(tx, shop.id, environment=Environment.PROD.value)
    OffHostArchive(world.plane).maintain()
    return seen(world, shop.id)


def test_the_archive_stays_with_the_service_before_and_the_service_begins_another(
    world: World, archived: Service
) -> None:
    found = upgraded(world, archived)
    assert (found.status, found.error) == (OperationStatus.SUCCEEDED, None)
    after, before = seen(world, archived.id), seen(world, str(found.previous_service_id))
    assert (before.archived_as, before.archived_until) == (archived.id, archived.archived_until)
    assert (after.archived_as, after.archived_until, after.archive_from) == (f"{archived.id}-{NEW}", None, None)
    world.backend.commit(archived.id, "two")
    OffHostArchive(world.plane).maintain()
    rows = {name: [row.value for row in rows] for name, rows in world.backend.archive.rows.items()}
    assert rows == {archived.id: ["one"], f"{archived.id}-{NEW}": ["one", "two"]}
    delete_service(world.plane, world.project.id, before.id)
    world.worker.run_until_idle()
    request = ForkRequest(ForkStrategy.NOW, from_deleted=True)
    fork = fork_service(world.plane, world.project.id, before.id, request).service
    world.worker.run_until_idle()
    assert (seen(world, fork.id).pg_major, world.backend.values(fork.id)) == (archived.pg_major, ["one"])


def test_a_fork_from_the_archive_that_began_before_the_upgrade_gets_what_it_was_promised(
    world: World, archived: Service
) -> None:
    target = world.backend.archive.bases[archived.id][0]
    with world.store.write() as tx:
        snapshots.delete_snapshots_of(tx, archived.id)
    request = ForkRequest(ForkStrategy.PITR, target_time=rfc3339(target))
    fork = fork_service(world.plane, world.project.id, archived.id, request).service
    with world.store.write() as tx:  # as the upgrade leaves it
        services.update_service(tx, archived.id, pg_major=NEW, archived_as=f"{archived.id}-{NEW}")
    world.worker.run_until_idle()
    assert (seen(world, fork.id).pg_major, world.backend.values(fork.id)) == (archived.pg_major, ["one"])


def test_an_upgrade_waits_until_nothing_is_sent_to_the_archive(world: World, archived: Service) -> None:
    world.backend.archive.sending.add(archived.id)
    upgrade_service(world.plane, world.project.id, archived.id, UpgradeRequest(NEW))

    def is_waiting() -> bool:
        world.worker.run_until_idle(horizon_seconds=0.05)
        with world.store.read() as tx:
            made = operations.of_subject(tx, archived.id)
        return any((one.step, one.progress) == ("settle", "the off-host archive is being written") for one in made)

    eventually(is_waiting)
    assert world.backend.volumes[archived.id].is_open
    world.backend.archive.sending.clear()
    world.worker.run_until_idle()
    assert seen(world, archived.id).pg_major == NEW


def test_the_catalogue_finds_both_in_the_archive(world: World, archived: Service) -> None:
    previous_id = str(upgraded(world, archived).previous_service_id)
    entries = {one.id: entry_of(one, []) for one in list_services(world.plane, world.project.id)}
    assert entries[archived.id].archive_name == f"{archived.id}-{NEW}"
    assert entries[previous_id].archive_name == archived.id
    again = service_of(entries[archived.id], archived.verifier, "copy")
    assert again.archived_as == f"{archived.id}-{NEW}"


def test_a_fork_is_kept_of_a_trial_only(world: World, shop: Service) -> None:
    with pytest.raises(Invalid, match="keep_fork can be true only with trial"):
        upgrade_service(world.plane, world.project.id, shop.id, replace(UpgradeRequest(NEW), keeps=True))
