"""Services fall asleep when nobody uses them, and clients that wait wake theirs: over the memory backend."""

import itertools
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import pytest

from ramet.backends.interface.values import Capture, Server, Sessions, SnapshotFacts, Source
from ramet.control import services
from ramet.control.duties.drills import record_overdue_drills, submit_due_drill
from ramet.control.duties.sleep import FallingAsleep, Waking
from ramet.control.poolers import enable_pooler
from ramet.control.replica_sets import ReplicaSetRequest, create_set
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.control.restore import take_snapshot
from ramet.control.sleep import set_sleep, submit_sleep, wake
from ramet.errors import Invalid, Unavailable, WrongState
from ramet.model.fork import ForkStrategy
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, shown_status, status_of
from ramet.model.status import Status
from ramet.procedures.spec import submit
from ramet.procedures.state import OptimizeState
from ramet.store import services as rows
from tests.worlds import World, fork_service, look

SECONDS = 600


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.seconds = world, 1000.0
        monkeypatch.setattr("ramet.control.duties.sleep.time.monotonic", lambda: self.seconds)
        self.duty = FallingAsleep(world.plane, world.plane.clock)

    def passes(self, seconds: float) -> None:
        for _ in range(round(seconds / 60)):
            self.duty.tend()
            self.seconds += 60
        self.duty.tend()
        self.world.worker.run_until_idle()


@pytest.fixture
def clock(world: World, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(world, monkeypatch)


def new(world: World, seconds: int | None = SECONDS) -> Service:
    request = CreateRequest("shop", sleep_after_seconds=seconds)
    return world.settle(services.create_service(world.plane, world.project.id, request))


def asleep(world: World) -> Service:
    service = new(world)
    assert submit_sleep(world.plane, service.id)
    world.worker.run_until_idle()
    return look(world, service)


def attend(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Perform the duty once: the memory backend answers at once, so it looks a few times only."""
    looks = iter(range(1000))
    monkeypatch.setattr("ramet.control.duties.sleep.time.monotonic", lambda: next(looks) / 4)
    Waking(world.plane).attend()


def test_an_idle_service_falls_asleep_and_is_ready_for_its_clients(world: World, clock: Clock) -> None:
    service, other = new(world), new(world, None)
    assert service.server_port not in (None, service.port)
    clock.passes(SECONDS - 60)
    assert not look(world, service).asleep
    clock.passes(120)
    found = look(world, service)
    assert (found.asleep, status_of(found), shown_status(found)) == (True, Status.PAUSED, Status.READY)
    assert not world.backend.volumes[service.id].running
    assert not look(world, other).asleep
    assert world.backend.volumes[other.id].running


def test_a_client_and_a_short_visit_keep_it_awake(world: World, clock: Clock) -> None:
    used, visited = new(world), new(world)
    world.backend.volumes[used.id].sessions = Sessions(1, "")
    for visit in range(4):
        clock.passes(SECONDS / 2)
        world.backend.volumes[visited.id].sessions = Sessions(0, f"{visit}")
    assert not look(world, used).asleep
    assert not look(world, visited).asleep
    clock.passes(SECONDS + 60)
    assert look(world, visited).asleep


def test_a_client_that_comes_at_the_last_moment_wins(world: World) -> None:
    service = new(world)
    assert submit_sleep(world.plane, service.id)
    world.backend.volumes[service.id].sessions = Sessions(1, "")
    world.worker.run_until_idle()
    found = look(world, service)
    assert (found.asleep, status_of(found)) == (False, Status.READY)


def test_an_endpoint_that_no_service_needs_is_closed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, deleted, changed = new(world), new(world), new(world)
    keep = world.backend.endpoints.keep

    def late(awake: Sequence[Server], asleep: Sequence[Server]) -> None:
        services.delete_service(world.plane, world.project.id, deleted.id)
        world.worker.run_until_idle()
        keep(awake, asleep)

    with monkeypatch.context() as patched:
        patched.setattr(world.backend.endpoints, "keep", late)
        attend(world, monkeypatch)
    assert deleted.id in world.backend.endpoints.list_open()
    set_sleep(world.plane, world.project.id, changed.id, None)
    attend(world, monkeypatch)
    assert set(world.backend.endpoints.list_open()) == {kept.id, changed.id}  # until its server is restarted
    world.worker.run_until_idle()
    world.backend.asleep[changed.id] = False
    world.backend.asleep["norow12345"] = False  # of a store that was restored from a backup
    attend(world, monkeypatch)
    assert set(world.backend.endpoints.list_open()) == {kept.id, changed.id, "norow12345"}  # its server may need it
    world.backend.crash(changed.id)
    with world.store.write() as tx:
        rows.update_service(tx, changed.id, down_reason="Its port is in use.")
    attend(world, monkeypatch)
    assert set(world.backend.endpoints.list_open()) == {kept.id, "norow12345"}


def test_a_client_that_waits_wakes_the_service(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = asleep(world)
    world.backend.waiting.add(service.id)
    attend(world, monkeypatch)
    world.worker.run_until_idle()
    found = look(world, service)
    assert (found.asleep, status_of(found), found.port) == (False, Status.READY, service.port)
    assert not world.backend.waiting


def test_who_waits_for_a_server_that_does_not_start_hears_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = asleep(world)
    with world.store.write() as tx:
        rows.update_service(tx, service.id, paused=False, asleep=False, down_reason="The disk is full.")
    world.backend.waiting.add(service.id)
    attend(world, monkeypatch)
    assert world.backend.refused[0][0] == service.id
    assert "The disk is full." in world.backend.refused[0][1]


def test_clients_held_back_by_an_attempt_that_was_lost_are_passed_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = new(world)
    world.backend.asleep[service.id] = True
    world.backend.waiting.add(service.id)
    attend(world, monkeypatch)
    assert not world.backend.waiting


def test_a_client_waits_until_the_service_has_fallen_asleep(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = new(world)
    assert submit_sleep(world.plane, service.id)
    world.backend.asleep[service.id] = True
    world.backend.waiting.add(service.id)
    attend(world, monkeypatch)
    world.worker.run_until_idle()
    attend(world, monkeypatch)
    world.worker.run_until_idle()
    assert not look(world, service).asleep
    assert not world.backend.waiting


def test_endpoints_are_opened_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service, other = asleep(world), new(world)
    world.backend.asleep.clear()
    attend(world, monkeypatch)
    assert world.backend.asleep == {service.id: True, other.id: False}


def test_a_sleeping_service_is_forked_and_snapshotted_without_waking(world: World) -> None:
    service = new(world)
    world.backend.commit(service.id, "row")
    assert submit_sleep(world.plane, service.id)
    world.worker.run_until_idle()
    take_snapshot(world.plane, world.project.id, service.id, "by hand")
    world.worker.run_until_idle()
    for strategy in (ForkStrategy.NOW, ForkStrategy.LAST_SNAPSHOT):
        fork = world.fork(service, ForkRequest(strategy))
        assert world.backend.values(fork.id) == ["row"]
        assert fork.sleep_after_seconds is None
    assert look(world, service).asleep


def test_a_service_that_falls_asleep_is_forked_and_snapshotted_and_stays_awake(world: World) -> None:
    service = new(world)
    world.backend.commit(service.id, "row")
    assert submit_sleep(world.plane, service.id)
    taken = take_snapshot(world.plane, world.project.id, service.id, "by hand")
    fork = world.fork(service)
    assert (status_of(fork), world.backend.values(fork.id)) == (Status.READY, ["row"])
    assert taken.id in world.backend.volumes[service.id].snapshots
    found = look(world, service)
    assert (found.asleep, status_of(found)) == (False, Status.READY)
    assert submit_sleep(world.plane, service.id)
    world.worker.run_until_idle()
    assert look(world, service).asleep


def test_a_service_that_is_forked_while_it_falls_asleep_can_be_changed_before_its_forks_are_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = new(world)
    assert submit_sleep(world.plane, service.id)
    fork = fork_service(world.plane, world.project.id, service.id, ForkRequest(ForkStrategy.NOW)).service
    capture, attempts, changed = world.backend.restore.capture, itertools.count(), list[Service]()

    def change_first(server: Server, source: Source) -> Capture | None:
        if not changed:
            with suppress(Unavailable):
                changed.append(set_sleep(world.plane, world.project.id, service.id, 60))
        return capture(server, source) if changed or next(attempts) == 20 else None

    monkeypatch.setattr(world.backend.restore, "capture", change_first)
    world.worker.run_until_idle()
    assert [(one.sleep_after_seconds, status_of(one)) for one in changed] == [(60, Status.READY)]
    assert status_of(look(world, fork)) is Status.READY


def test_a_fork_of_the_last_snapshot_of_a_service_that_falls_asleep_is_not_behind_its_forks(world: World) -> None:
    service = new(world)
    world.backend.commit(service.id, "row")
    world.fork(service)
    assert submit_sleep(world.plane, service.id)
    fork = world.fork(service, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert world.backend.values(fork.id) == ["row"]


@pytest.mark.parametrize("strategy", [ForkStrategy.NOW, ForkStrategy.LAST_SNAPSHOT])
def test_a_service_whose_server_stops_to_fall_asleep_is_forked_and_snapshotted_with_its_data(
    world: World, monkeypatch: pytest.MonkeyPatch, strategy: ForkStrategy
) -> None:
    service = new(world)
    world.backend.commit(service.id, "row")
    world.fork(service)  # the last snapshot is older
    assert submit_sleep(world.plane, service.id)
    fall_asleep, forks, taken = world.backend.endpoints.fall_asleep, list[Service](), list[str]()

    def interrupted(server: Server) -> bool:
        found = fall_asleep(server)
        if not forks:
            forks.append(fork_service(world.plane, world.project.id, service.id, ForkRequest(strategy)).service)
            taken.append(take_snapshot(world.plane, world.project.id, service.id, "by hand").id)
            raise Unavailable("KILLED", "The worker is killed before it has recorded that")
        return found

    monkeypatch.setattr(world.backend.endpoints, "fall_asleep", interrupted)
    world.worker.run_until_idle()
    assert (status_of(look(world, forks[0])), world.backend.values(forks[0].id)) == (Status.READY, ["row"])
    assert set(taken) <= {*world.backend.volumes[service.id].snapshots}
    assert look(world, service).asleep


def test_a_snapshot_of_a_service_that_just_fell_asleep_is_taken_before_a_client_wakes_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = asleep(world)
    taken, woken = take_snapshot(world.plane, world.project.id, service.id, None), list[bool]()
    take = world.backend.restore.take_snapshot

    def late(server: Server, snapshot_id: str, paused: bool) -> SnapshotFacts | None:
        if not woken:
            woken.append(wake(world.plane, service.id))
            return None  # as of a server that was stopped while it was copied
        return take(server, snapshot_id, paused)

    monkeypatch.setattr(world.backend.restore, "take_snapshot", late)
    world.worker.run_until_idle()
    assert taken.id in world.backend.volumes[service.id].snapshots
    assert (woken, status_of(look(world, service))) == ([True], Status.READY)


def test_what_a_service_that_falls_asleep_cannot_do_now_is_to_be_tried_again(world: World) -> None:
    service = new(world)
    assert submit_sleep(world.plane, service.id)
    with pytest.raises(Unavailable, match="is falling asleep"):
        services.stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    services.stop_service(world.plane, world.project.id, service.id)


def test_a_restore_drill_does_not_wake(world: World) -> None:
    service = asleep(world)
    submit_due_drill(world.plane, timedelta(0))
    world.worker.run_until_idle()
    found = look(world, service)
    assert (found.asleep, found.last_verified_at is not None, found.drill_failure) == (True, True, None)
    record_overdue_drills(world.plane, timedelta(0))
    assert look(world, service).drill_failure is not None


def test_pausing_a_sleeping_service_closes_its_endpoint_and_starting_it_wakes_it(world: World) -> None:
    service = asleep(world)
    services.stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    found = look(world, service)
    assert (found.asleep, shown_status(found)) == (False, Status.PAUSED)
    assert service.id not in world.backend.asleep
    services.start_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert status_of(look(world, service)) is Status.READY
    assert submit_sleep(world.plane, service.id)
    world.worker.run_until_idle()
    services.start_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert shown_status(look(world, service)) is Status.READY
    assert not look(world, service).asleep


def test_it_may_be_changed_later_and_taken_back(world: World) -> None:
    service = world.create()
    changed = set_sleep(world.plane, world.project.id, service.id, 60)
    assert (changed.sleep_after_seconds, status_of(changed)) == (60, Status.UPGRADING)
    world.worker.run_until_idle()
    found = look(world, service)
    assert found.server_port is not None
    longer = set_sleep(world.plane, world.project.id, service.id, 600)
    assert (longer.server_port, longer.activity) == (found.server_port, None)
    assert submit_sleep(world.plane, service.id)
    world.worker.run_until_idle()
    set_sleep(world.plane, world.project.id, service.id, None)
    world.worker.run_until_idle()
    awake = look(world, service)
    assert (awake.server_port, awake.sleep_after_seconds, awake.asleep) == (None, None, False)
    assert (status_of(awake), awake.port) == (Status.READY, service.port)
    assert service.id not in world.backend.asleep


def test_a_paused_service_is_changed_without_a_start(world: World) -> None:
    service = world.create()
    services.stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    found = set_sleep(world.plane, world.project.id, service.id, 60)
    assert (status_of(found), found.sleep_after_seconds) == (Status.PAUSED, 60)
    services.start_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert world.backend.asleep == {service.id: False}


def test_what_is_always_in_use_cannot_fall_asleep(world: World) -> None:
    pooled, service = world.create(), new(world)
    enable_pooler(world.plane, world.project.id, pooled.id)
    world.worker.run_until_idle()
    with pytest.raises(WrongState, match="has a pooler, and cannot fall asleep"):
        set_sleep(world.plane, world.project.id, pooled.id, 60)
    with pytest.raises(WrongState, match="cannot have a pooler"):
        enable_pooler(world.plane, world.project.id, service.id)
    with pytest.raises(WrongState, match="cannot have read replicas"):
        create_set(world.plane, world.project.id, service.id, ReplicaSetRequest("reports", 1, 500, 2))
    with pytest.raises(Invalid, match="must be between 5 and 2592000"):
        set_sleep(world.plane, world.project.id, service.id, 1)


def test_what_needs_its_server_says_how_to_wake_it(world: World) -> None:
    service = asleep(world)
    with pytest.raises(WrongState, match=r"is asleep, and .*Connect to it"):
        services.optimize_service(world.plane, world.project.id, service.id)


def test_a_service_that_is_copied_from_stays_awake(world: World) -> None:
    service = new(world)
    with world.store.write() as tx:
        rows.add_hold(tx, service.id, submit(tx, ProcedureName.OPTIMIZE, service.id, OptimizeState()))
    assert not submit_sleep(world.plane, service.id)


def test_forks_of_a_project_sleep_by_default(world: World) -> None:
    parent = world.create()
    world.projects.change_limits(world.project.id, {"fork_sleep_after_seconds": 900})
    fork = world.fork(parent)
    other = world.fork(parent, ForkRequest(ForkStrategy.NOW, sleep_after_seconds=60))
    assert (fork.sleep_after_seconds, other.sleep_after_seconds) == (900, 60)
    ports = {one for each in (parent, fork, other) for one in (each.port, each.server_port) if one is not None}
    assert len(ports) == 5
