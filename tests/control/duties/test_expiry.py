"""What the restore window no longer needs is removed also where no snapshot is taken."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ramet.control import services
from ramet.control.duties.expiry import Expiry
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.control.restore import take_snapshot
from ramet.control.sleep import submit_sleep
from ramet.errors import Unavailable
from ramet.model.fork import ForkStrategy
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service
from ramet.model.upstream import Following
from ramet.operations.procedure import Work
from ramet.procedures.state import ExpiryState
from ramet.store import operations, snapshots
from ramet.store import services as rows
from tests.aging import make_expired_snapshots
from tests.backends.kubernetes.servers import UPSTREAM
from tests.worlds import Hurried, World, fork_service, look


def submit(world: World, later: timedelta = timedelta(0)) -> None:
    Expiry(world.plane, lambda: world.plane.clock() + later, world.storage_guard).remove_due()


def remove(world: World, later: timedelta = timedelta(0)) -> None:
    submit(world, later)
    Hurried(world.store, world.procedures).run_until_idle(horizon_seconds=3600.0)


def run_beside_another_holder(world: World, service: Service) -> None:
    with world.store.write() as tx:
        another = operations.of_subject(tx, service.id)[-1].id
        rows.add_hold(tx, service.id, another)
    world.worker.run_until_idle()
    with world.store.write() as tx:
        rows.drop_holds(tx, another)


def left(world: World, service: Service) -> list[str]:
    with world.store.read() as tx:
        return [each.id for each in snapshots.list_snapshots(tx, service.id)]


def files_left(world: World, service: Service) -> set[str]:
    return set(world.backend.restore.snapshot_ids(service.id) or ())


def set_columns(world: World, service: Service, **values: object) -> None:
    with world.store.write() as tx:
        rows.update_service(tx, service.id, **values)


def test_a_service_that_is_only_read_keeps_only_the_base_of_its_window(world: World) -> None:
    service = world.create()
    ids = make_expired_snapshots(world, service.id)
    remove(world)
    assert left(world, service) == ids[-1:]
    assert files_left(world, service) == set(ids[-1:])


def test_the_wal_before_that_base_is_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = world.create()
    ids, discarded = make_expired_snapshots(world, service.id), []
    monkeypatch.setattr(world.backend.restore, "discard_wal", lambda *given: discarded.append(given))
    remove(world)
    assert [(service_id, oldest.id) for service_id, oldest in discarded] == [(service.id, ids[-1])]


def test_nothing_is_done_where_snapshots_are_taken_that_remove_what_has_expired(world: World) -> None:
    service = world.create()
    ids = make_expired_snapshots(world, service.id)
    with world.store.write() as tx:
        newest = snapshots.list_snapshots(tx, service.id)[-1]
        snapshots.insert_snapshot(tx, replace(newest, id="a" * 10, end_lsn="0/FF", taken_at=world.plane.clock()))
    remove(world)
    assert left(world, service) == [*ids, "a" * 10]


def test_a_sleeping_service_is_treated_like_one_that_serves(world: World) -> None:
    request = CreateRequest("shop", sleep_after_seconds=600)
    service = world.settle(services.create_service(world.plane, world.project.id, request))
    ids = make_expired_snapshots(world, service.id)
    assert submit_sleep(world.plane, service.id)
    world.worker.run_until_idle()
    assert look(world, service).asleep
    remove(world)
    assert left(world, service) == ids[-1:]


@pytest.mark.parametrize("rests", ["paused", "down"])
def test_one_that_is_paused_or_down_keeps_all_until_the_storage_is_nearly_full(world: World, rests: str) -> None:
    service = world.create()
    ids = make_expired_snapshots(world, service.id)
    set_columns(world, service, storage_warning="The storage was nearly full.")
    if rests == "paused":
        services.stop_service(world.plane, world.project.id, service.id)
        world.worker.run_until_idle()
    else:
        set_columns(world, service, down_reason="It does not start.")
    remove(world)
    assert left(world, service) == ids
    world.storage_guard.is_nearly_full = True
    remove(world)
    assert left(world, service) == ids[-1:]


def test_expired_snapshots_stay_while_a_fork_holds_the_service(world: World) -> None:
    service = world.create()
    ids = make_expired_snapshots(world, service.id)
    fork_service(world.plane, world.project.id, service.id, ForkRequest(ForkStrategy.NOW))
    submit(world)
    assert left(world, service) == ids
    world.worker.run_until_idle()
    remove(world)
    assert left(world, service) == ids[-1:]


def test_wal_that_the_archive_did_not_have_is_removed_when_it_has_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, discarded = world.create(), []
    ids, duty = make_expired_snapshots(world, service.id), Expiry(world.plane, world.plane.clock, world.storage_guard)
    monkeypatch.setattr(world.backend.restore, "discard_wal", lambda *given: discarded.append(given))
    world.backend.archive.location = "memory://archive"
    set_columns(world, service, settings={"archive": True})
    now = world.plane.clock()
    for archived_until, times in ((None, 0), (None, 0), (now, 1), (now, 1), (None, 1), (None, 1), (now, 1)):
        set_columns(world, service, archived_until=archived_until)
        duty.remove_due()
        world.worker.run_until_idle()
        assert (left(world, service), len(discarded)) == (ids[-1:], times)
    with world.store.read() as tx:
        submitted = [each.procedure for each in operations.of_subject(tx, service.id)]
    assert submitted.count(ProcedureName.EXPIRE) == 2


def test_a_service_is_held_until_the_files_are_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = world.create()
    make_expired_snapshots(world, service.id)
    holders: list[str] = []

    def note(service_id: str, _snapshot_id: str) -> None:
        with world.store.read() as tx:
            holders.extend(rows.holders(tx, service_id))

    monkeypatch.setattr(world.backend.restore, "delete_snapshot", note)
    remove(world)
    assert len(holders) == 2
    with world.store.read() as tx:
        assert not rows.holders(tx, service.id)


def test_a_removal_beside_another_holder_removes_nothing_and_is_repeated(world: World) -> None:
    service = world.create()
    ids = make_expired_snapshots(world, service.id)
    submit(world)
    run_beside_another_holder(world, service)
    assert left(world, service) == ids
    assert files_left(world, service) == set(ids)
    remove(world)
    assert left(world, service) == ids[-1:]
    assert files_left(world, service) == set(ids[-1:])


def test_wal_is_removed_later_where_another_held_the_service(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service, discarded = world.create(), []
    make_expired_snapshots(world, service.id)
    duty = Expiry(world.plane, world.plane.clock, world.storage_guard)
    monkeypatch.setattr(world.backend.restore, "discard_wal", lambda *given: discarded.append(given))
    world.backend.archive.location = "memory://archive"
    set_columns(world, service, settings={"archive": True})
    duty.remove_due()
    world.worker.run_until_idle()
    set_columns(world, service, archived_until=world.plane.clock())
    duty.remove_due()
    run_beside_another_holder(world, service)
    assert not discarded
    duty.remove_due()
    world.worker.run_until_idle()
    assert len(discarded) == 1


def test_a_worker_that_has_lost_its_lease_holds_no_service(world: World) -> None:
    service = world.create()
    make_expired_snapshots(world, service.id)
    remove(world)
    with world.store.read() as tx:
        ended = operations.of_subject(tx, service.id)[0]
    work = Work(ended.id, service.id, "retire", ExpiryState(), 1, ended.created_at, ended.created_at)
    next(each for each in world.procedures if each.name == ProcedureName.EXPIRE).steps["retire"](work)
    with world.store.read() as tx:
        assert not rows.holders(tx, service.id)


@pytest.mark.parametrize("act", ["delete_snapshot", "discard_wal"])
def test_what_a_removal_could_not_remove_is_removed_an_hour_later(
    world: World, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    service, discarded = world.create(), []
    ids = make_expired_snapshots(world, service.id)

    def fail(*_arguments: object) -> None:
        raise OSError("The disk is read-only")

    with monkeypatch.context() as patched:
        patched.setattr(world.backend.restore, act, fail)
        remove(world)
    assert left(world, service) == ids[-1:]
    monkeypatch.setattr(world.backend.restore, "discard_wal", lambda *given: discarded.append(given))
    remove(world, timedelta(minutes=59))
    assert not discarded
    remove(world, timedelta(minutes=61))
    assert files_left(world, service) == set(ids[-1:])
    assert len(discarded) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_a_removal_gives_way_to_what_would_stop_the_service(
    world: World, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    service = world.create()
    ids = make_expired_snapshots(world, service.id)
    delete = world.backend.restore.delete_snapshot

    def stop_during(service_id: str, snapshot_id: str) -> None:
        services.stop_service(world.plane, world.project.id, service.id)
        if fails:
            raise Unavailable("STORAGE_AWAY", "The storage does not answer")
        delete(service_id, snapshot_id)

    with monkeypatch.context() as patched:
        patched.setattr(world.backend.restore, "delete_snapshot", stop_during)
        remove(world)
    assert look(world, service).paused
    assert files_left(world, service) == set(ids if fails else ids[1:])
    services.start_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    take_snapshot(world.plane, world.project.id, service.id, None)
    world.worker.run_until_idle()
    remove(world)
    assert files_left(world, service) == set(left(world, service))


def test_a_follower_that_receives_nothing_keeps_all_until_storage_is_short(world: World) -> None:
    service = world.create()
    ids = make_expired_snapshots(world, service.id)
    set_columns(world, service, upstream=UPSTREAM)
    with world.store.write() as tx:
        rows.record_following(tx, service.id, Following(observed_at=world.plane.clock(), problem="It does not answer."))
    remove(world)
    assert left(world, service) == ids
    set_columns(world, service, storage_warning="The storage is nearly full.")
    remove(world)
    assert left(world, service) == ids[-1:]


def test_a_snapshot_by_hand_removes_nothing_where_somebody_may_want_the_state_of_before(world: World) -> None:
    service = world.create()
    ids = make_expired_snapshots(world, service.id)
    services.stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    take_snapshot(world.plane, world.project.id, service.id, "before the repair")
    world.worker.run_until_idle()
    assert left(world, service)[:-1] == ids
    services.start_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    take_snapshot(world.plane, world.project.id, service.id, "after the repair")
    world.worker.run_until_idle()
    assert ids[0] not in left(world, service)
