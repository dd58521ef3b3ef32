"""Restore windows, their settings, and snapshots made by hand, as the control plane decides and records them."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ramet.backends.memory.backend import MemoryBackend
from ramet.control import restore, services
from ramet.control.duties.snapshots import ScheduledSnapshots
from ramet.control.plane import utc_now
from ramet.control.requests import ForkRequest
from ramet.control.restore import PendingSnapshot
from ramet.errors import Invalid, NotFound, WrongState
from ramet.ids import new_id
from ramet.model.fork import ForkStrategy
from ramet.model.gaps import Gap
from ramet.model.service import Service
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.model.timestamps import rfc3339
from ramet.store import snapshots
from tests.worlds import World, fork_service, make_world

SECOND = timedelta(seconds=1)


def at(restore_time: str) -> ForkRequest:
    return ForkRequest(ForkStrategy.PITR, target_time=restore_time)


def snapshots_of(world: World, service: Service) -> list[Snapshot | PendingSnapshot]:
    return restore.list_snapshots(world.plane, world.project.id, service.id)


def test_the_window_reaches_from_the_first_snapshot_to_now(world: World) -> None:
    service = world.create()
    before = world.plane.clock()
    window = restore.get_restore_window(world.plane, world.project.id, service.id)
    assert window.earliest is not None
    assert window.latest is not None
    assert service.created_at < window.earliest < before < window.latest
    assert [snapshot.kind for snapshot in window.snapshots] == [SnapshotKind.INITIAL]
    assert window.settings.window_days == 7


def test_a_target_time_in_a_gap_is_refused_with_the_bounds_of_the_gap(world: World) -> None:
    service = world.create()
    begins_at, ends_at = (world.backend.commit(service.id, name).committed_at for name in ("before", "after"))
    inside = world.backend.commit(service.id, "later").committed_at
    gap = Gap(begins_at, inside + SECOND, "WAL segment X is missing")
    world.backend.volumes[service.id].gaps.append(gap)
    with pytest.raises(Invalid) as refused:
        fork_service(world.plane, world.project.id, service.id, at(rfc3339(ends_at)))
    assert refused.value.code == "OUTSIDE_RESTORE_WINDOW"
    assert "WAL segment X is missing" in refused.value.message
    assert rfc3339(gap.begins_at) in refused.value.message
    assert rfc3339(inside + SECOND) in refused.value.message
    assert restore.get_restore_window(world.plane, world.project.id, service.id).gaps == [gap]


def test_the_window_ends_where_a_gap_reaches_until_now(world: World) -> None:
    service = world.create()
    begins_at = world.backend.commit(service.id, "last").committed_at
    world.backend.volumes[service.id].gaps.append(Gap(begins_at, None, "It is missing."))
    assert restore.get_restore_window(world.plane, world.project.id, service.id).latest == begins_at


def test_settings_of_a_service_go_before_those_of_the_installation(world: World) -> None:
    service = world.create()
    changed = restore.change_restore_settings(world.plane, world.project.id, service.id, {"window_days": 30})
    assert changed.settings.window_days == 30
    assert changed.settings.snapshot_interval_seconds == 600
    back = restore.change_restore_settings(world.plane, world.project.id, service.id, {"window_days": None})
    assert back.settings.window_days == 7


def test_a_setting_out_of_bounds_is_refused_by_its_name(world: World) -> None:
    service = world.create()
    with pytest.raises(Invalid, match="window_days must be between 1 and 365"):
        restore.change_restore_settings(world.plane, world.project.id, service.id, {"window_days": 0})


def test_a_snapshot_is_due_when_the_service_says_so(world: World) -> None:
    eager, lazy = world.create("eager"), world.create("lazy")
    changes = {"snapshot_wal_bytes": 16 * 1024**2, "snapshot_interval_seconds": 60}
    restore.change_restore_settings(world.plane, world.project.id, eager.id, changes)
    for service in (eager, lazy):
        world.backend.commit(service.id, "row")
    later = ScheduledSnapshots(replace(world.plane, clock=lambda: world.plane.clock() + timedelta(minutes=2)))
    later.take_due()
    world.worker.run_until_idle()
    assert len(snapshots_of(world, eager)) == 2
    assert len(snapshots_of(world, lazy)) == 1


def test_a_clock_that_went_back_makes_a_snapshot_of_every_service_due_once(tmp_path: Path) -> None:
    step = [timedelta(0)]
    world = make_world(tmp_path, MemoryBackend(clock=lambda: utc_now() + step[0]))
    service = world.create()
    duty = ScheduledSnapshots(replace(world.plane, clock=lambda: utc_now() + step[0]))
    counts = []
    for seconds in (0, -30, -30):
        step[0] = timedelta(seconds=seconds)
        duty.take_due()
        world.worker.run_until_idle()
        counts.append(len(snapshots_of(world, service)))
    world.store.close()
    assert counts == [1, 2, 2]


def test_the_window_shows_that_the_clock_went_back(world: World) -> None:
    service = world.create()
    early = utc_now() - timedelta(hours=1)
    with world.store.write() as tx:
        snapshots.insert_snapshot(
            tx, Snapshot("b" * 10, service.id, SnapshotKind.SCHEDULED, early, "F/0", "F/1", 1, 9, 9)
        )
    (step,) = restore.get_restore_window(world.plane, world.project.id, service.id).clock_steps
    assert step.after == early
    assert step.before > step.after


def test_a_manual_snapshot_is_seen_at_once_and_stays_until_it_is_deleted(world: World) -> None:
    service = world.create()
    taken = restore.take_snapshot(world.plane, world.project.id, service.id, "before the migration")
    assert snapshots_of(world, service)[-1] == taken
    world.worker.run_until_idle()
    made = snapshots_of(world, service)[-1]
    assert isinstance(made, Snapshot)
    assert (made.id, made.kind, made.name) == (taken.id, SnapshotKind.MANUAL, "before the migration")
    restore.delete_snapshot(world.plane, world.project.id, service.id, taken.id)
    world.worker.run_until_idle()
    assert taken.id not in [one.id for one in snapshots_of(world, service)]
    assert taken.id not in world.backend.volumes[service.id].snapshots


def test_a_snapshot_of_a_server_that_is_down_does_not_hold_up_a_deletion(world: World) -> None:
    service = world.create()
    restore.take_snapshot(world.plane, world.project.id, service.id, "before the migration")
    world.backend.crash(service.id)
    services.delete_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    with pytest.raises(NotFound):
        services.get_service(world.plane, world.project.id, service.id)
    assert world.leftovers() == []


def test_a_paused_service_can_have_a_snapshot(world: World) -> None:
    service = world.create()
    services.stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    restore.take_snapshot(world.plane, world.project.id, service.id, None)
    world.worker.run_until_idle()
    assert [one.kind for one in restore.get_restore_window(world.plane, world.project.id, service.id).snapshots] == [
        SnapshotKind.INITIAL,
        SnapshotKind.MANUAL,
    ]


def test_a_service_that_is_being_made_cannot_have_a_snapshot(world: World) -> None:
    accepted = services.stop_service(world.plane, world.project.id, world.create().id)
    with pytest.raises(WrongState, match="PAUSING"):
        restore.take_snapshot(world.plane, world.project.id, accepted.id, None)


def test_only_manual_snapshots_are_deleted_by_hand(world: World) -> None:
    service = world.create()
    scheduled = snapshots_of(world, service)[0]
    with pytest.raises(Invalid, match="restore window"):
        restore.delete_snapshot(world.plane, world.project.id, service.id, scheduled.id)
    with pytest.raises(NotFound):
        restore.delete_snapshot(world.plane, world.project.id, service.id, new_id())


def test_a_snapshot_is_deleted_after_the_forks_that_grow_from_it(world: World) -> None:
    service = world.create()
    world.backend.commit(service.id, "row")
    taken = restore.take_snapshot(world.plane, world.project.id, service.id, None)
    world.worker.run_until_idle()
    accepted = fork_service(world.plane, world.project.id, service.id, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    restore.delete_snapshot(world.plane, world.project.id, service.id, taken.id)
    fork = world.settle(accepted)
    assert world.backend.values(fork.id) == ["row"]
    assert taken.id not in [one.id for one in snapshots_of(world, service)]


def test_before_the_birth_of_a_fork_the_error_names_the_ancestor_to_ask(world: World) -> None:
    root = world.create("root")
    restore_time = rfc3339(world.backend.commit(root.id, "row").committed_at)
    fork = root
    for _ in range(10):
        fork = world.fork(fork)
    with pytest.raises(Invalid) as refused:
        fork_service(world.plane, world.project.id, fork.id, at(restore_time))
    assert refused.value.code == "OUTSIDE_RESTORE_WINDOW"
    assert "was created" in refused.value.message
    assert root.id in refused.value.details
    assert world.backend.values(world.fork(root, at(restore_time)).id) == ["row"]


def test_a_deleted_ancestor_is_named_as_such(world: World) -> None:
    root = world.create("root")
    restore_time = rfc3339(world.backend.commit(root.id, "row").committed_at)
    fork = world.fork(root)
    services.delete_service(world.plane, world.project.id, root.id)
    world.worker.run_until_idle()
    with pytest.raises(Invalid) as refused:
        fork_service(world.plane, world.project.id, fork.id, at(restore_time))
    assert root.id in refused.value.details
    assert "deleted" in refused.value.details


def test_before_the_first_ancestor_there_was_nothing(world: World) -> None:
    root = world.create("root")
    fork = world.fork(root)
    with pytest.raises(Invalid, match="Not even its ancestor 'root'"):
        fork_service(world.plane, world.project.id, fork.id, at(rfc3339(root.created_at - SECOND)))
