"""Services expire, by time and by idleness: announced before, not because a clock jumps, and no protected one."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from ramet.backends.interface.values import Sessions
from ramet.control import services
from ramet.control.duties import clock
from ramet.control.duties.clock import TrustedTime
from ramet.control.duties.life_spans import LifeSpans
from ramet.control.duties.sleep import FallingAsleep
from ramet.control.life_spans import extend_service
from ramet.control.operations import list_operations
from ramet.control.poolers import enable_pooler
from ramet.control.protection import set_protection
from ramet.control.replica_sets import ReplicaSetRequest, create_set
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.control.sleep import submit_sleep, wake
from ramet.errors import NotFound, WrongState
from ramet.model.fork import ForkStrategy
from ramet.model.life_span import LifeTerms
from ramet.model.service import Service
from ramet.model.trusted_time import Reading
from ramet.restores.verbs import RestoreRequest, restore_service
from ramet.store import services as rows
from tests.worlds import World, look

HOUR, DAY = 3600, 86_400


class Time:
    """The clocks of a host that a test moves, and the duty that reads them."""

    def __init__(self, world: World, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.boot_seconds, self.wall = world, 0.0, datetime.now(UTC)
        monkeypatch.setattr(clock, "read_clocks", self.read)
        self.trusted = TrustedTime(directory / "clock.json")
        self.duty = LifeSpans(world.plane, self.trusted.now)
        self.trusted.now()

    def read(self) -> Reading:
        return Reading("boot", self.boot_seconds, self.wall.timestamp())

    def passes(self, seconds: float, *, every: float = 600.0) -> None:
        """Let time pass, with the duty in between."""
        for _ in range(max(1, round(seconds / every))):
            self.boot_seconds += min(every, seconds)
            self.wall += timedelta(seconds=min(every, seconds))
            self.duty._looked_at.clear()  # the pause between two looks is real time
            self.duty.tend()
            self.world.worker.run_until_idle()

    def jumps(self, seconds: float) -> None:
        """Set the wall clock, without any time having passed."""
        self.wall += timedelta(seconds=seconds)


@pytest.fixture
def time(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(world, tmp_path, monkeypatch)


def new(world: World, *, ttl_seconds: int | None = None, idle_ttl_seconds: int | None = None) -> Service:
    life = LifeTerms(ttl_seconds=ttl_seconds, idle_ttl_seconds=idle_ttl_seconds)
    return world.settle(services.create_service(world.plane, world.project.id, CreateRequest("shop", life=life)))


def exists(world: World, service: Service) -> bool:
    try:
        services.get_service(world.plane, world.project.id, service.id)
    except NotFound:
        return False
    return True


def test_a_service_is_announced_and_then_deleted_with_the_reason_in_its_history(
    world: World, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    service, other = new(world, ttl_seconds=10 * HOUR), world.create()
    time.passes(8 * HOUR)
    assert look(world, service).life_span == service.life_span
    with caplog.at_level(logging.WARNING):
        time.passes(HOUR + 600)
    span = look(world, service).life_span
    assert span is not None
    assert span.warning is not None
    assert span.warning in caplog.text
    time.passes(HOUR)
    assert (exists(world, service), exists(world, other)) == (False, True)
    newest = list_operations(world.plane, world.project.id, service.id).items[0]
    assert newest.procedure == "delete"
    assert newest.reason == span.reason
    assert world.leftovers() == []


def test_a_service_that_sleeps_is_idle(world: World, time: Time) -> None:
    life = LifeTerms(idle_ttl_seconds=2 * HOUR)
    request = CreateRequest("shop", life=life, sleep_after_seconds=600)
    service = world.settle(services.create_service(world.plane, world.project.id, request))
    time.passes(600)
    assert submit_sleep(world.plane, service.id)
    time.passes(HOUR)
    assert look(world, service).asleep
    time.passes(2 * HOUR)
    assert not exists(world, service)
    assert world.leftovers() == []


def test_a_service_that_sleeps_between_its_short_visits_is_in_use(
    world: World, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = LifeTerms(idle_ttl_seconds=2 * HOUR)
    made = [
        services.create_service(world.plane, world.project.id, CreateRequest(name, life=life, sleep_after_seconds=60))
        for name in ("visited", "probed")
    ]
    visited, probed = (world.settle(one) for one in made)
    monkeypatch.setattr("ramet.control.duties.sleep.time.monotonic", lambda: time.boot_seconds)
    sleep = FallingAsleep(world.plane, time.trusted.now)
    for number in range(5):
        for service in (visited, probed):
            if exists(world, service):  # who connects without a session wakes a server too, and leaves no mark
                wake(world.plane, service.id)
        world.worker.run_until_idle()
        world.backend.volume(visited.id).sessions = Sessions(0, str(number))
        for _ in range(2):  # no duty of life spans finds it awake
            sleep.tend()
            time.boot_seconds += 60
            time.jumps(60)
        sleep.tend()
        world.worker.run_until_idle()
        assert look(world, visited).asleep
        time.passes(HOUR)
    assert (exists(world, visited), exists(world, probed)) == (True, False)


def test_a_week_in_a_minute_ends_each_service_on_its_day(world: World, time: Time) -> None:
    made = [new(world, ttl_seconds=days * DAY) for days in range(1, 8)]
    for day in range(1, 8):
        time.passes(DAY - HOUR, every=HOUR)
        assert [exists(world, one) for one in made] == [day <= last for last in range(1, 8)]
        time.passes(HOUR, every=600)
    time.passes(600)
    assert not any(exists(world, one) for one in made)


def test_a_clock_that_jumps_a_month_ahead_deletes_nothing_until_it_is_confirmed(world: World, time: Time) -> None:
    made = [new(world, ttl_seconds=7 * DAY) for _ in range(3)]
    time.jumps(30 * DAY)
    time.passes(DAY - HOUR, every=HOUR)
    assert [look(world, one).life_span for one in made] == [one.life_span for one in made]
    time.jumps(-30 * DAY)
    time.passes(6 * DAY - 2 * HOUR, every=HOUR)
    assert all(exists(world, one) for one in made)
    time.passes(4 * HOUR)
    assert not any(exists(world, one) for one in made)


def test_what_expired_while_ramet_was_down_is_announced_first_and_can_still_be_extended(
    world: World, time: Time
) -> None:
    lost, kept = new(world, ttl_seconds=10 * HOUR), new(world, ttl_seconds=10 * HOUR)
    time.boot_seconds += 3 * DAY
    time.jumps(3 * DAY)
    time.passes(60)
    assert exists(world, lost)
    assert exists(world, kept)
    late = LifeTerms(ttl_seconds=5 * DAY)  # the clock of the world itself did not move
    extend_service(world.plane, world.project.id, kept.id, late)
    time.passes(HOUR + 600)
    assert (exists(world, lost), exists(world, kept)) == (False, True)


def test_a_protected_service_does_not_expire_and_cannot_be_deleted(world: World, time: Time) -> None:
    service = new(world, ttl_seconds=HOUR)
    set_protection(world.plane, world.project.id, service.id, protected=True)
    with pytest.raises(WrongState, match="is protected"):
        services.delete_service(world.plane, world.project.id, service.id)
    time.passes(2 * HOUR)
    assert exists(world, service)
    set_protection(world.plane, world.project.id, service.id, protected=False)
    time.passes(2 * HOUR)
    assert not exists(world, service)


def test_an_idle_service_expires_and_one_with_clients_does_not(world: World, time: Time) -> None:
    idle, used, visited = (new(world, idle_ttl_seconds=2 * HOUR) for _ in range(3))
    world.backend.volume(used.id).sessions = Sessions(1, "1")
    for number in range(12):
        world.backend.volume(visited.id).sessions = Sessions(0, str(number))  # came and went between two looks
        time.passes(HOUR)
    assert [exists(world, one) for one in (idle, used, visited)] == [False, True, True]


def test_poolers_and_replicas_count_only_with_clients_of_their_own(world: World, time: Time) -> None:
    read, unread = new(world, idle_ttl_seconds=2 * HOUR), new(world, idle_ttl_seconds=2 * HOUR)
    for service in (read, unread):
        enable_pooler(world.plane, world.project.id, service.id)
        world.worker.run_until_idle()
        create_set(world.plane, world.project.id, service.id, ReplicaSetRequest("reads", 1, "500", "2"))
        world.worker.run_until_idle()
    (node,) = look(world, read).replica_sets[0].nodes
    world.backend.volume(node.id).sessions = Sessions(1, "1")
    time.passes(6 * HOUR)
    assert (exists(world, read), exists(world, unread)) == (True, False)


def test_a_client_that_comes_back_calls_an_announced_end_off(world: World, time: Time) -> None:
    service = new(world, idle_ttl_seconds=10 * HOUR)
    time.passes(9 * HOUR + 600)
    before = look(world, service).life_span
    assert before is not None
    assert before.warning is not None
    world.backend.volume(service.id).sessions = Sessions(0, "again")
    time.passes(2 * HOUR)
    after = look(world, service).life_span
    assert after is not None
    assert after.warning is None


def test_a_paused_service_is_not_idle(world: World, time: Time) -> None:
    service = new(world, idle_ttl_seconds=2 * HOUR)
    services.stop_service(world.plane, world.project.id, service.id)
    time.passes(6 * HOUR)
    assert exists(world, service)


def test_extending_calls_an_announced_end_off_and_is_refused_once_the_deletion_runs(world: World, time: Time) -> None:
    service = new(world, ttl_seconds=HOUR)
    time.passes(HOUR - 300, every=60)
    extended = extend_service(world.plane, world.project.id, service.id, LifeTerms(ttl_seconds=4 * HOUR))
    assert extended.life_span is not None
    assert extended.life_span.warning is None
    time.passes(2 * HOUR)
    assert exists(world, service)
    time.boot_seconds += 2 * HOUR
    time.jumps(2 * HOUR)
    time.duty.tend()
    time.boot_seconds += HOUR
    time.jumps(HOUR)
    time.duty.tend()  # the deletion is submitted, and no worker has begun it
    with pytest.raises(WrongState, match="DELETING"):
        extend_service(world.plane, world.project.id, service.id, LifeTerms(ttl_seconds=HOUR))
    world.worker.run_until_idle()
    assert not exists(world, service)


@pytest.mark.slow
def test_sixty_services_that_end_at_once_are_deleted_and_their_parent_stays(world: World, time: Time) -> None:
    parent = world.create()
    request = ForkRequest(ForkStrategy.NOW, life=LifeTerms(ttl_seconds=HOUR))
    made = [world.fork(parent, request) for _ in range(60)]
    time.passes(2 * HOUR)
    assert [one.id for one in services.list_services(world.plane, world.project.id)] == [parent.id]
    assert not any(exists(world, one) for one in made)
    assert world.leftovers() == []


def test_a_service_extended_between_the_look_and_the_deletion_stays(world: World, time: Time) -> None:
    service = new(world, ttl_seconds=HOUR)
    time.passes(2 * HOUR - 1, every=10_000)  # announced late: it is over only after that
    span = look(world, service).life_span
    assert span is not None
    later = replace(span, expires_at=datetime.now(UTC) + timedelta(days=9), announced_at=None)
    with world.store.write() as tx:
        rows.update_service(tx, service.id, life_span=rows.life_span_column(later))
    time.duty._delete(service.id, time.trusted.now())
    assert exists(world, service)


def test_a_protected_service_is_not_restored_in_place(world: World) -> None:
    service = world.create()
    set_protection(world.plane, world.project.id, service.id, protected=True)
    request = RestoreRequest(target_time="2026-01-15T10:30:00Z")
    with pytest.raises(WrongState, match="is protected"):
        restore_service(world.plane, world.project.id, service.id, request)
