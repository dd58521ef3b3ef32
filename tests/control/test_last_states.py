"""What the off-host archive has of a service that is deleted: its last state is sent before its volume is removed."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ramet.backends.interface.archive import ArchiveState
from ramet.backends.interface.servers import SERVER_ENDING
from ramet.backends.interface.values import Server
from ramet.backends.memory.archive import MemoryArchive
from ramet.backends.memory.servers import MemoryServers
from ramet.control import services
from ramet.control.archived_forks import list_deleted
from ramet.control.duties.archive import OffHostArchive
from ramet.control.requests import CreateRequest
from ramet.errors import Error, Failed, Unavailable, Unseen
from ramet.model.environment import Environment
from ramet.model.service import Service
from ramet.procedures.registry import all_procedures
from ramet.procedures.replicas import destroy_replicas
from ramet.procedures.servers import Tools
from ramet.store import services as stored_services
from tests.worlds import Hurried, World

AWAY = Unavailable("ARCHIVE_UNAVAILABLE", "The archive s3://bucket does not answer: timed out")
NO_ANSWER = Unseen("NO_ANSWER", "The API server does not answer")
STOPPING = Unavailable("SERVER_STOPPING", "The server is still stopping")
TAKEN_OVER = Failed("ARCHIVE_TAKEN_OVER", "Another installation writes to it")
LOST = "is not in the off-host archive"


@pytest.fixture
def shop(world: World) -> Service:
    """A service that the archive has all of but one row."""
    world.backend.archive.location = "s3://bucket"
    request = CreateRequest("shop", environment=Environment.PROD)
    shop = world.settle(services.create_service(world.plane, world.project.id, request))
    OffHostArchive(world.plane).maintain()
    world.backend.commit(shop.id, "last")
    return services.get_service(world.plane, world.project.id, shop.id)


@pytest.fixture
def slow_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume that is there for a moment after it has been removed."""
    ending, remove = [Unavailable(SERVER_ENDING, "A volume is still being removed")], MemoryServers.destroy

    def destroy(servers: MemoryServers, service_id: str) -> None:
        remove(servers, service_id)
        if ending:
            raise ending.pop()

    monkeypatch.setattr(MemoryServers, "destroy", destroy)


class Clock:
    """The time of this process, which a test sets forward."""

    def __init__(self) -> None:
        self.ahead_seconds, self._seconds = 0.0, time.time

    def seconds(self) -> float:
        return self._seconds() + self.ahead_seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds(), UTC)


@pytest.fixture
def clock(world: World, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock.seconds)
    world.backend.clock, world.plane = clock.now, replace(world.plane, clock=clock.now)
    world.procedures = all_procedures(Tools(world.store, world.backend, clock.now))
    return clock


def delete(world: World, shop: Service) -> None:
    services.delete_service(world.plane, world.project.id, shop.id)
    Hurried(world.store, world.procedures).run_until_idle(horizon_seconds=2.0)


def slowly(clock: Clock, faults: list[Unseen], work: Callable[..., Any]) -> Callable[..., Any]:
    """Return work that takes 90 seconds, and raises these faults first."""

    def run(*args: object, **options: object) -> Any:
        clock.ahead_seconds += 90
        if faults:
            raise faults.pop()
        return work(*args, **options)

    return run


def has_last_state(world: World, shop: Service) -> bool:
    (listed,) = list_deleted(world.plane, world.project.id)
    *_, last = world.backend.archive.rows[shop.id]
    return last.value == "last" and listed.held.latest > last.committed_at


@pytest.mark.usefixtures("slow_removal")
def test_until_when_a_deleted_service_is_archived_is_kept_while_it_is_being_removed(
    world: World, shop: Service, caplog: pytest.LogCaptureFixture
) -> None:
    delete(world, shop)
    assert has_last_state(world, shop)
    assert LOST not in caplog.text


@pytest.mark.parametrize(("of", "method"), [(MemoryServers, "stop"), (MemoryArchive, "maintain")])
def test_a_deletion_waits_while_the_last_state_cannot_be_sent(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch, of: type, method: str
) -> None:
    faults, work = [AWAY, NO_ANSWER], getattr(of, method)

    def fail_at_first(*args: object, **options: object) -> object:
        if faults:
            raise faults.pop()
        return work(*args, **options)

    monkeypatch.setattr(of, method, fail_at_first)
    delete(world, shop)
    assert has_last_state(world, shop)


@pytest.mark.parametrize(
    ("fault", "longest"),
    [(AWAY, timedelta(0)), (TAKEN_OVER, timedelta(minutes=1))],
    ids=["away until the wait is over", "failed for good"],
)
@pytest.mark.usefixtures("slow_removal")
def test_a_deletion_says_once_what_is_lost_when_the_last_state_is_not_sent(
    world: World,
    shop: Service,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: Error,
    longest: timedelta,
) -> None:
    monkeypatch.setattr("ramet.procedures.delete._LONGEST_SHIPPING", longest)
    world.backend.archive.fault = fault
    delete(world, shop)
    assert services.list_services(world.plane, world.project.id) == []
    (said,) = [record.message for record in caplog.records if LOST in record.message]
    assert f"what it committed after {shop.archived_until} {LOST}: {fault}" in said


def test_the_minute_of_the_archive_begins_when_the_server_has_stopped(
    world: World, shop: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop, maintain = MemoryServers.stop, MemoryArchive.maintain
    behind = [ArchiveState(shop.archived_until)] * 2

    def stop_slowly(servers: MemoryServers, server: Server) -> None:
        if world.backend.volumes[shop.id].running:
            clock.ahead_seconds += 90
        stop(servers, server)

    def maintain_slowly(archive: MemoryArchive, server: Server, **options: Any) -> ArchiveState:
        return behind.pop() if behind else maintain(archive, server, **options)

    monkeypatch.setattr(MemoryServers, "stop", stop_slowly)
    monkeypatch.setattr(MemoryArchive, "maintain", maintain_slowly)
    delete(world, shop)
    assert has_last_state(world, shop)
    assert LOST not in caplog.text


def test_a_server_that_has_not_stopped_within_the_minute_is_asked_once(
    world: World, shop: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def stop(_servers: MemoryServers, server: Server) -> None:
        calls.append(server.service_id)
        clock.ahead_seconds += 90
        raise STOPPING

    monkeypatch.setattr(MemoryServers, "stop", stop)
    delete(world, shop)
    assert services.list_services(world.plane, world.project.id) == []
    assert calls == [shop.id]
    assert LOST in caplog.text


@pytest.mark.parametrize(("of", "method"), [(MemoryServers, "stop"), (MemoryArchive, "maintain")])
def test_a_last_state_is_not_given_up_while_this_process_cannot_ask(
    world: World, shop: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch, of: type, method: str
) -> None:
    monkeypatch.setattr(of, method, slowly(clock, [NO_ANSWER] * 3, getattr(of, method)))
    delete(world, shop)
    assert has_last_state(world, shop)


def test_a_last_state_is_not_given_up_while_nothing_can_be_removed_either(
    world: World, shop: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    faults = [NO_ANSWER] * 6
    for method in ("stop", "destroy"):
        monkeypatch.setattr(MemoryServers, method, slowly(clock, faults, getattr(MemoryServers, method)))
    delete(world, shop)
    assert services.list_services(world.plane, world.project.id) == []
    assert not faults
    assert has_last_state(world, shop)
    assert LOST not in caplog.text


def test_a_last_state_has_its_five_minutes_also_when_replicas_could_not_be_removed_for_longer(
    world: World, shop: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas = slowly(clock, [NO_ANSWER] * 4, destroy_replicas)
    monkeypatch.setattr("ramet.procedures.delete.destroy_replicas", replicas)
    monkeypatch.setattr(MemoryServers, "stop", slowly(clock, [NO_ANSWER], MemoryServers.stop))
    delete(world, shop)
    assert has_last_state(world, shop)


def test_a_deletion_fails_when_nothing_can_be_removed_for_more_than_an_hour(
    world: World, shop: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.procedures = [replace(each, deadline_seconds=20) for each in world.procedures]  # else it takes 600 attempts
    faults = [NO_ANSWER] * 200
    for method in ("stop", "destroy"):
        monkeypatch.setattr(MemoryServers, method, slowly(clock, faults, getattr(MemoryServers, method)))
    delete(world, shop)
    (left,) = services.list_services(world.plane, world.project.id)
    assert str(NO_ANSWER) in str(left.down_reason)
    assert clock.ahead_seconds > 3600


@pytest.mark.parametrize(("of", "method"), [(MemoryServers, "stop"), (MemoryArchive, "maintain")])
def test_a_service_is_deleted_where_only_its_last_state_cannot_be_asked_for(
    world: World,
    shop: Service,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    of: type,
    method: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        clock.ahead_seconds += 90
        raise NO_ANSWER

    monkeypatch.setattr(of, method, fail)
    delete(world, shop)
    assert services.list_services(world.plane, world.project.id) == []
    (said,) = [record.message for record in caplog.records if LOST in record.message]
    assert f"what it committed after {shop.archived_until} {LOST}: {NO_ANSWER}" in said


def test_until_when_a_service_is_archived_does_not_go_back_when_its_last_state_is_given_up(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("ramet.procedures.delete._LONGEST_SHIPPING", timedelta(0))
    monkeypatch.setattr(MemoryArchive, "maintain", lambda *_, **__: ArchiveState(before))
    delete(world, shop)
    with world.store.read() as tx:
        deleted = stored_services.get_service(tx, shop.id)
    assert deleted is not None
    assert deleted.archived_until == shop.archived_until


def test_a_service_of_which_no_base_backup_is_known_is_deleted_without_asking_the_archive(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(MemoryArchive, "maintain", lambda *_, **__: ArchiveState(problem="It has lost the newest one"))
        OffHostArchive(world.plane).maintain()
    asked = list[str]()

    def maintained(_archive: MemoryArchive, server: Server, **_options: object) -> ArchiveState:
        asked.append(server.service_id)
        return ArchiveState()

    monkeypatch.setattr(MemoryArchive, "maintain", maintained)
    services.delete_service(world.plane, world.project.id, shop.id)
    world.worker.run_until_idle()
    with world.store.read() as tx:
        (found,) = stored_services.deleted_in_archive(tx)
    assert (found.id, asked) == (shop.id, [])
