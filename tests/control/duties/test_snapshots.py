"""When snapshots are taken on schedule, and which are retired."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import sqlalchemy as sa

from ramet.control.duties.snapshots import ScheduledSnapshots
from ramet.control.plane import Plane, utc_now
from ramet.control.requests import ForkRequest
from ramet.control.restore import get_restore_window, take_snapshot
from ramet.errors import Exhausted
from ramet.model.fork import ForkStrategy
from ramet.model.procedures import ProcedureName
from ramet.model.restore_window import RestoreSettings, usual_settings
from ramet.model.service import Service
from ramet.model.snapshot import Snapshot
from ramet.model.status import OperationStatus
from ramet.operations.worker import Worker
from ramet.procedures.registry import all_procedures
from ramet.procedures.servers import Tools
from ramet.store import operations, services, snapshots
from ramet.store.tables import operation
from tests.worlds import Hurried, World


def known_snapshots(world: World, service: Service) -> list[Snapshot]:
    with world.store.read() as tx:
        return snapshots.list_snapshots(tx, service.id)


def attempts(world: World, service: Service) -> int:
    with world.store.read() as tx:
        return sum(one.procedure == ProcedureName.SNAPSHOT for one in operations.of_subject(tx, service.id))


def minutes_ahead(world: World, minutes: int) -> Plane:
    return replace(world.plane, clock=lambda: utc_now() + timedelta(minutes=minutes))


EAGER = RestoreSettings(snapshot_interval_seconds=0)


def take_costly(
    world: World, service: Service, monkeypatch: pytest.MonkeyPatch, seconds: float, act: str = "take_snapshot"
) -> None:
    """Take a snapshot on schedule of which one act takes so many seconds."""
    passed, restore, quick = [0.0], world.backend.restore, getattr(world.backend.restore, act)

    def slow(*arguments: object) -> object:
        passed[0] += seconds
        return quick(*arguments)

    tools = Tools(world.store, world.backend, utc_now, timedelta(0), stopwatch=lambda: passed[0])
    world.backend.commit(service.id, "row")
    ScheduledSnapshots(replace(world.plane, restore=EAGER)).take_due()
    with monkeypatch.context() as patched:
        patched.setattr(restore, act, slow)
        Worker(world.store, all_procedures(tools)).run_until_idle()
    assert passed[0] == seconds


@pytest.mark.parametrize("act", ["take_snapshot", "discard_wal"])
@pytest.mark.parametrize(("seconds", "later", "wanted"), [(1.0, 0, 3), (30.0, 300, 2), (30.0, 601, 3)])
def test_after_a_costly_snapshot_the_next_one_is_due_when_twenty_times_as_long_has_passed(
    world: World, monkeypatch: pytest.MonkeyPatch, act: str, seconds: float, later: float, wanted: int
) -> None:
    service = world.create()
    take_costly(world, service, monkeypatch, seconds, act)
    world.backend.commit(service.id, "row")
    ahead = replace(world.plane, restore=EAGER, clock=lambda: utc_now() + timedelta(seconds=later))
    ScheduledSnapshots(ahead).take_due()
    world.worker.run_until_idle()
    assert len(known_snapshots(world, service)) == wanted


def test_the_window_says_until_when_the_next_snapshot_is_postponed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = world.create()
    take_costly(world, service, monkeypatch, 30.0)
    last = known_snapshots(world, service)[-1]
    for seconds, wanted in ((599, last.taken_at + timedelta(seconds=600)), (601, None), (-60, None)):
        now = last.taken_at + timedelta(seconds=seconds)
        later = replace(world.plane, clock=partial(datetime.fromtimestamp, now.timestamp(), UTC))
        assert get_restore_window(later, world.project.id, service.id).next_snapshot_at == wanted


def test_a_clock_that_went_back_makes_a_snapshot_due_after_a_costly_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = world.create()
    take_costly(world, service, monkeypatch, 30.0)
    ScheduledSnapshots(replace(world.plane, clock=lambda: utc_now() - timedelta(seconds=30))).take_due()
    world.worker.run_until_idle()
    assert len(known_snapshots(world, service)) == 3


def test_servers_whose_clock_is_ahead_for_good_do_not_make_one_snapshot_due_after_the_other(world: World) -> None:
    service = world.create()
    behind = ScheduledSnapshots(replace(world.plane, clock=lambda: utc_now() - timedelta(seconds=30)))
    counts = []
    for _ in range(3):
        behind.take_due()
        world.worker.run_until_idle()
        counts.append(len(known_snapshots(world, service)))
    assert counts == [counts[0]] * 3


def set_clock_back(world: World, service: Service) -> None:
    """Date the snapshots of a service as if the clock had been an hour ahead when they were taken."""
    known = known_snapshots(world, service)
    with world.store.write() as tx:
        snapshots.delete_snapshots_of(tx, service.id)
        for one in known:
            snapshots.insert_snapshot(tx, replace(one, taken_at=one.taken_at + timedelta(hours=1)))


def let_snapshots_fail(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise Exhausted("NOT_ENOUGH_DISK", "A copy needs more than is free")

    monkeypatch.setattr(world.backend.restore, "take_snapshot", fail)
    monkeypatch.setattr(world.backend.restore, "written_since", lambda *_: 10**9)


@pytest.mark.parametrize("older", ["before", "none", "ahead of the clock"])
def test_a_snapshot_on_schedule_that_does_not_fit_is_tried_again_after_ten_minutes(
    world: World, monkeypatch: pytest.MonkeyPatch, older: str
) -> None:
    service = world.create()
    if older == "none":
        with world.store.write() as tx:
            snapshots.delete_snapshots_of(tx, service.id)
    elif older == "ahead of the clock":
        set_clock_back(world, service)
    world.backend.commit(service.id, "row")
    let_snapshots_fail(world, monkeypatch)
    before = attempts(world, service)
    for minutes, wanted in ((0, 1), (9, 1), (11, 2)):
        duty = ScheduledSnapshots(minutes_ahead(world, minutes))
        for _ in range(1 if minutes == 11 else 5):  # the attempt ends now by the clock of the worker
            duty.take_due()
            world.worker.run_until_idle()
        assert attempts(world, service) - before == wanted


def test_the_window_says_until_when_the_next_snapshot_is_postponed_by_a_failure(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = world.create()
    world.backend.commit(service.id, "row")
    let_snapshots_fail(world, monkeypatch)
    ScheduledSnapshots(replace(world.plane, restore=EAGER)).take_due()
    world.worker.run_until_idle()
    with world.store.read() as tx:
        failed_at = tx.execute(sa.select(sa.func.max(operation.c.finished_at))).scalar_one()
    for minutes, wanted in ((0, failed_at + timedelta(minutes=10)), (11, None)):
        window = get_restore_window(minutes_ahead(world, minutes), world.project.id, service.id)
        assert window.next_snapshot_at == wanted


def test_a_failure_from_before_the_clock_was_set_back_counts_no_more_and_hides_no_newer_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, duty = world.create(), ScheduledSnapshots(world.plane)
    let_snapshots_fail(world, monkeypatch)
    set_clock_back(world, service)
    before = attempts(world, service)
    duty.take_due()
    world.worker.run_until_idle()
    with world.store.write() as tx:
        ahead = utc_now() + timedelta(hours=1)
        failed = operation.update().where(operation.c.status == OperationStatus.FAILED.value)
        tx.execute(failed.values(created_at=ahead, finished_at=ahead))
    for _ in range(3):
        duty.take_due()
        world.worker.run_until_idle()
    assert attempts(world, service) == before + 2


def test_a_clock_that_was_set_back_soon_after_a_failed_snapshot_makes_one_due_when_it_may_be_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, duty = world.create(), ScheduledSnapshots(minutes_ahead(world, 0))
    duty.take_due()
    with monkeypatch.context() as patched:
        let_snapshots_fail(world, patched)
        duty.take_due()
        world.worker.run_until_idle()
    before, seldom = len(known_snapshots(world, service)), RestoreSettings(snapshot_interval_seconds=86400)
    monkeypatch.setattr(duty, "_has_clock_gone_back", iter([True, False, False, False]).__next__)
    for minutes, wanted in ((0, 0), (9, 0), (11, 1), (11, 1)):
        duty.plane = replace(minutes_ahead(world, minutes), restore=seldom)
        world.backend.commit(service.id, "row")  # it does not come to rest
        duty.take_due()
        world.worker.run_until_idle()
        assert len(known_snapshots(world, service)) - before == wanted


def test_a_failure_before_the_last_snapshot_does_not_delay_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, duty = world.create(), ScheduledSnapshots(replace(world.plane, restore=EAGER))
    world.backend.commit(service.id, "row")
    with monkeypatch.context() as patched:
        let_snapshots_fail(world, patched)
        duty.take_due()
        world.worker.run_until_idle()
    take_snapshot(world.plane, world.project.id, service.id, "by hand")
    world.worker.run_until_idle()
    before = attempts(world, service)
    world.backend.commit(service.id, "row")
    duty.take_due()
    assert attempts(world, service) == before + 1


def test_a_snapshot_that_is_listed_stays_when_the_removal_of_what_is_older_fails(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = world.create()
    world.backend.commit(service.id, "row")
    taken = take_snapshot(world.plane, world.project.id, service.id, "kept")

    def fail(*_arguments: object) -> None:
        raise OSError("The disk is read-only")

    with monkeypatch.context() as patched:
        patched.setattr(world.backend.restore, "discard_wal", fail)
        Hurried(world.store, world.procedures).run_until_idle(horizon_seconds=3600.0)
    with world.store.read() as tx:
        found = operations.get(tx, taken.id)
    assert found is not None
    assert found.status is OperationStatus.FAILED
    assert taken.id in {one.id for one in known_snapshots(world, service)}
    fork = world.fork(service, ForkRequest(ForkStrategy.LAST_SNAPSHOT, snapshot_id=taken.id))
    assert world.backend.values(fork.id) == ["row"]


def test_snapshots_that_somebody_waits_for_are_not_postponed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = world.create()
    take_costly(world, service, monkeypatch, 30.0)
    world.backend.commit(service.id, "newest")
    held = world.backend.values(world.fork(service).id)
    last = world.fork(service, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert world.backend.values(last.id) == held == ["row", "newest"]
    before = len(known_snapshots(world, service))
    take_snapshot(world.plane, world.project.id, service.id, "by hand")
    world.worker.run_until_idle()
    assert len(known_snapshots(world, service)) == before + 1


def test_a_snapshot_is_due_only_when_something_was_written(world: World) -> None:
    service = world.create()
    eager = ScheduledSnapshots(replace(world.plane, restore=RestoreSettings(snapshot_interval_seconds=0)))
    eager.take_due()
    world.worker.run_until_idle()
    assert len(known_snapshots(world, service)) == 1
    world.backend.commit(service.id, "row")
    eager.take_due()
    eager.take_due()
    world.worker.run_until_idle()
    assert len(known_snapshots(world, service)) == 2


def test_no_snapshot_is_due_while_the_storage_is_nearly_full(world: World) -> None:
    service = world.create()
    eager = ScheduledSnapshots(replace(world.plane, restore=RestoreSettings(snapshot_interval_seconds=0)))
    world.backend.commit(service.id, "row")
    for warning, wanted in (("The storage has 3 MiB left", 1), (None, 2)):
        with world.store.write() as tx:
            services.update_service(tx, service.id, storage_warning=warning)
        eager.take_due()
        world.worker.run_until_idle()
        assert len(known_snapshots(world, service)) == wanted


def test_a_service_that_came_to_rest_gets_a_snapshot(world: World) -> None:
    service = world.create()
    a_minute_later = ScheduledSnapshots(replace(world.plane, clock=lambda: world.plane.clock() + timedelta(seconds=61)))
    for wanted in (1, 1, 2):
        if wanted == 1:
            world.backend.commit(service.id, "row")
        a_minute_later.take_due()
        world.worker.run_until_idle()
        assert len(known_snapshots(world, service)) == wanted


def test_where_snapshots_are_copies_none_is_due_before_it_saves_as_much_wal_as_it_has_data(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(world.plane.backend.host), "volume_type", lambda _: "copy")
    service = world.create()
    first = known_snapshots(world, service)[0]
    with world.store.write() as tx:
        snapshots.delete_unheld(tx, service.id, [first.id], "")
        snapshots.insert_snapshot(tx, replace(first, size_bytes=10**9))
    window = get_restore_window(world.plane, world.project.id, service.id)
    assert window.settings.snapshot_wal_bytes == 10**9
    world.backend.commit(service.id, "row")
    minutes_later = replace(world.plane, clock=lambda: world.plane.clock() + timedelta(minutes=61))
    restful = ScheduledSnapshots(replace(minutes_later, restore=usual_settings("copy")))
    for written, wanted in ((10**9 - 1, 1), (10**9 - 1, 1), (10**9, 2)):
        monkeypatch.setattr(world.plane.backend.restore, "written_since", lambda *_, written=written: written)
        restful.take_due()
        world.worker.run_until_idle()
        assert len(known_snapshots(world, service)) == wanted


def test_old_snapshots_are_retired_with_their_files(world: World) -> None:
    service = world.create()
    with world.store.write() as tx:
        first = snapshots.list_snapshots(tx, service.id)[0]
        for days, name in ((20, "a" * 10), (10, "b" * 10)):
            old = Snapshot(name, service.id, first.kind, first.taken_at - timedelta(days=days), "0/0", "0/0", 1, 0, 0)
            snapshots.insert_snapshot(tx, old)
            world.backend.volumes[service.id].snapshots[name] = ()
    world.backend.commit(service.id, "row")
    ScheduledSnapshots(replace(world.plane, restore=RestoreSettings(snapshot_interval_seconds=0))).take_due()
    world.worker.run_until_idle()
    kept = {snapshot.id for snapshot in known_snapshots(world, service)}
    assert "a" * 10 not in kept
    assert "b" * 10 in kept
    assert set(world.backend.volumes[service.id].snapshots) == kept


def test_a_clock_that_stepped_forward_retires_no_snapshot(world: World) -> None:
    service, ahead = world.create(), timedelta(days=365)
    trusted = Tools(world.store, world.backend, lambda: utc_now() + ahead, timedelta(0), utc_now)
    stepped = Worker(world.store, all_procedures(trusted))
    duty = ScheduledSnapshots(
        replace(
            world.plane,
            restore=RestoreSettings(snapshot_interval_seconds=0),
            wake=stepped.wake,
            clock=lambda: utc_now() + ahead,
        )
    )
    for wanted in (2, 3):
        world.backend.commit(service.id, "row")
        duty.take_due()
        stepped.run_until_idle()
        assert len(known_snapshots(world, service)) == wanted
