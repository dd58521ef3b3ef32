"""Create, list, pause, resume and delete; crashed servers."""

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from ramet.api.shapes import service_shape
from ramet.backends.interface.values import Observation, Server
from ramet.control.duties import retention
from ramet.control.duties.health import Health
from ramet.control.duties.refresh import Refresh
from ramet.control.duties.storage_guard import StorageGuard
from ramet.control.operations import list_operations
from ramet.control.placement import Placement
from ramet.control.plane import utc_now
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.control.services import (
    create_service,
    delete_service,
    get_service,
    list_services,
    optimize_service,
    resize_service,
    start_service,
    stop_service,
)
from ramet.errors import Failed, Invalid, NotFound, Unseen, WrongState
from ramet.model.fork import ForkStrategy
from ramet.model.service import Service, status_of, status_reason
from ramet.model.status import Status
from ramet.operations.worker import Worker
from tests import procedure_laws as laws
from tests.control.duties.test_snapshots import known_snapshots
from tests.worlds import World, fork_service


def status(world: World, service: Service) -> Status:
    return status_of(get_service(world.plane, world.project.id, service.id))


def test_a_new_service_is_queued_and_then_ready(world: World) -> None:
    accepted = create_service(world.plane, world.project.id, CreateRequest("shop"))
    assert status_of(accepted.service) is Status.QUEUED
    assert status_of(world.settle(accepted)) is Status.READY


def test_services_are_listed_in_the_order_of_their_creation(world: World) -> None:
    names = [f"service {number}" for number in range(5)]
    for name in names:
        create_service(world.plane, world.project.id, CreateRequest(name))
    assert [service.name for service in list_services(world.plane, world.project.id)] == names


def test_a_service_pauses_and_resumes_with_its_rows(world: World) -> None:
    service = world.create()
    world.backend.commit(service.id, "row")
    assert status_of(stop_service(world.plane, world.project.id, service.id)) is Status.PAUSING
    world.worker.run_until_idle()
    assert status(world, service) is Status.PAUSED
    assert status_of(start_service(world.plane, world.project.id, service.id)) is Status.RESUMING
    world.worker.run_until_idle()
    assert status(world, service) is Status.READY
    assert world.backend.values(service.id) == ["row"]


def test_a_verb_in_the_wrong_state_is_refused_with_the_state(world: World) -> None:
    service = world.create()
    with pytest.raises(WrongState, match="READY"):
        start_service(world.plane, world.project.id, service.id)
    stop_service(world.plane, world.project.id, service.id)
    with pytest.raises(WrongState, match="PAUSING"):
        stop_service(world.plane, world.project.id, service.id)


def test_a_deleted_service_is_not_found_and_leaves_nothing(world: World) -> None:
    service = world.create()
    assert status_of(delete_service(world.plane, world.project.id, service.id)) is Status.DELETING
    world.worker.run_until_idle()
    with pytest.raises(NotFound):
        get_service(world.plane, world.project.id, service.id)
    assert world.leftovers() == []
    assert known_snapshots(world, service) == []


def test_deleting_twice_is_the_same_as_once(world: World) -> None:
    service = world.create()
    delete_service(world.plane, world.project.id, service.id)
    delete_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert list_services(world.plane, world.project.id) == []


def test_ports_of_services_that_are_gone_are_free_again(world: World) -> None:
    plane = replace(world.plane, placement=Placement("local", "localhost", range(20000, 20004)))
    for _ in range(6):
        service = create_service(plane, world.project.id, CreateRequest("brief")).service
        delete_service(plane, world.project.id, service.id)
        world.worker.run_until_idle()
    assert list_services(world.plane, world.project.id) == []


@pytest.mark.parametrize(
    "request_",
    [CreateRequest(""), CreateRequest("x", region_code="mars"), CreateRequest("x", replica_count=1)],
)
def test_a_bad_create_is_refused(world: World, request_: CreateRequest) -> None:
    with pytest.raises(Invalid):
        create_service(world.plane, world.project.id, request_)
    assert list_services(world.plane, world.project.id) == []


def test_a_crashed_server_is_unstable_with_its_reason_until_it_serves_again(world: World) -> None:
    service = world.create()
    world.backend.crash(service.id)
    world.health.inspect()
    seen = get_service(world.plane, world.project.id, service.id)
    assert status_of(seen) is Status.UNSTABLE
    assert "not running" in (status_reason(seen) or "")
    world.worker.run_until_idle()
    world.backend.volumes[service.id].is_open = True
    assert status(world, service) is Status.READY


def test_a_service_whose_pause_failed_after_its_clients_were_turned_away_is_opened_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = world.create()

    def turn_away(server: Server) -> None:
        world.backend.volumes[server.service_id].is_open = False
        raise Failed("NOT_STOPPED", "The server does not stop")

    with monkeypatch.context() as patched:
        patched.setattr(world.backend.servers, "stop", turn_away)
        stop_service(world.plane, world.project.id, service.id)
        world.worker.run_until_idle()
    assert status(world, service) is Status.UNSTABLE
    world.health.inspect()
    world.worker.run_until_idle()
    assert status(world, service) is Status.READY
    assert world.backend.volumes[service.id].is_open


def test_a_server_that_crashes_again_is_restarted_though_the_clock_stepped_back(world: World) -> None:
    service, ahead = world.create(), timedelta(hours=1)
    health = Health(replace(world.plane, clock=lambda: utc_now() + ahead))

    def crash() -> None:
        world.backend.crash(service.id)
        deadline = time.monotonic() + 60
        while status(world, service) is not Status.UNSTABLE:
            assert time.monotonic() < deadline, "the crashed server is not restarted"
            health.inspect()
        world.worker.run_until_idle()
        world.backend.volumes[service.id].is_open = True

    crash()
    ahead = timedelta(0)
    crash()


def test_a_service_that_is_restarted_can_be_paused_and_deleted(world: World) -> None:
    for end in (stop_service, delete_service):
        service = world.create()
        world.backend.crash(service.id)
        world.health.inspect()
        assert status(world, service) is Status.UNSTABLE
        assert end(world.plane, world.project.id, service.id).activity is not None
        world.worker.run_until_idle()
        left = [each for each in list_services(world.plane, world.project.id) if each.id == service.id]
        assert [status_of(each) for each in left] == ([Status.PAUSED] if end is stop_service else [])


def test_what_has_to_wait_for_an_operation_says_so(world: World) -> None:
    service = world.create()
    world.backend.crash(service.id)
    world.health.inspect()
    with pytest.raises(WrongState) as caught:
        resize_service(world.plane, world.project.id, service.id, "1000", "4")
    assert caught.value.message == f"Service {service.id} is UNSTABLE while its restart is under way"


def test_a_lost_volume_is_said_and_never_made_anew(world: World) -> None:
    service = world.create()
    del world.backend.volumes[service.id]
    world.health.inspect()
    world.worker.run_until_idle()
    seen = get_service(world.plane, world.project.id, service.id)
    assert status_of(seen) is Status.UNSTABLE
    assert "lost" in (status_reason(seen) or "")
    assert service.id not in world.backend.volumes


def test_what_cannot_be_looked_at_is_left_alone_and_the_others_are_not(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hidden, fallen = world.create(), world.create()
    look = world.backend.servers.inspect

    def observe(server: Server) -> Observation:
        if server.service_id == hidden.id:
            raise Unseen("CANNOT_LOOK", "it cannot be looked at")
        return look(server)

    monkeypatch.setattr(world.backend.servers, "inspect", observe)
    world.backend.volumes[hidden.id].running = world.backend.volumes[fallen.id].running = False
    world.health.inspect()
    world.worker.run_until_idle()
    assert "it cannot be looked at" in caplog.text
    assert [world.backend.volumes[each.id].running for each in (hidden, fallen)] == [False, True]
    assert status_of(get_service(world.plane, world.project.id, hidden.id)) is Status.READY


def test_servers_of_an_earlier_process_are_refreshed_once(world: World) -> None:
    serving, paused = world.create(), world.create()
    stop_service(world.plane, world.project.id, paused.id)
    world.worker.run_until_idle()
    later = Refresh(world.plane)
    young = world.create()
    volumes = world.backend.volumes
    for _ in range(2):
        later.apply()
        assert [volumes[each.id].refreshes for each in (serving, paused, young)] == [1, 0, 0]
    start_service(world.plane, world.project.id, paused.id)
    world.worker.run_until_idle()
    later.apply()
    assert [volumes[each.id].refreshes for each in (serving, paused, young)] == [1, 1, 0]


def test_a_refresh_that_is_not_finished_is_taken_up_again(world: World) -> None:
    service = world.create()
    world.backend.volumes[service.id].unfinished_refreshes = 1
    later = Refresh(world.plane)
    for count in (1, 2, 2):
        later.apply()
        assert world.backend.volumes[service.id].refreshes == count


def test_what_to_do_in_a_wrong_state_can_be_done(world: World) -> None:
    paused, going = world.create(), world.create()
    stop_service(world.plane, world.project.id, paused.id)
    world.worker.run_until_idle()
    delete_service(world.plane, world.project.id, going.id)
    for service, remedy in ((paused, "Bring it to READY first."), (going, "It is being deleted: use another service.")):
        with pytest.raises(WrongState) as caught:
            stop_service(world.plane, world.project.id, service.id)
        assert caught.value.details == remedy


def test_a_ready_service_has_its_first_snapshot(world: World) -> None:
    assert len(known_snapshots(world, world.create())) == 1


@pytest.mark.parametrize(("days", "is_remembered"), [(29, True), (31, False)])
def test_the_reason_of_a_failed_fork_is_remembered_for_a_month(world: World, days: int, is_remembered: bool) -> None:
    parent = world.create()
    fork_service(world.plane, world.project.id, parent.id, ForkRequest(ForkStrategy.NOW))
    failing = laws.rewritten(world.procedures, "fork", lambda fork: laws.failing(fork, "capture", after=False))
    Worker(world.store, failing).run_until_idle()
    later = world.plane.clock() + timedelta(days=days)
    retention.remove_history(world.plane, later, timedelta(days=30))
    page = list_operations(world.plane, world.project.id)
    assert ("Injected at capture" in [past.error for past in page.items]) is is_remembered
    assert "create" in [past.procedure for past in page.items]


@pytest.mark.parametrize(("days", "is_remembered"), [(29, True), (31, False)])
def test_a_request_can_be_repeated_for_a_month(world: World, days: int, is_remembered: bool) -> None:
    first = create_service(world.plane, world.project.id, CreateRequest("shop"), "key")
    world.worker.run_until_idle()
    later = world.plane.clock() + timedelta(days=days)
    retention.remove_history(world.plane, later, timedelta(days=30))
    again = create_service(world.plane, world.project.id, CreateRequest("shop"), "key")
    assert (again.service.id == first.service.id) is is_remembered


def test_while_the_storage_is_nearly_full_services_are_read_only_and_say_so(world: World) -> None:
    service, paused = world.create(), world.create("asleep")
    stop_service(world.plane, world.project.id, paused.id)
    world.worker.run_until_idle()
    world.storage_guard.check()
    assert not world.backend.volumes[service.id].held
    world.backend.short_of_room = "The storage has 7 MiB left."
    world.storage_guard.check()
    shown = service_shape(get_service(world.plane, world.project.id, service.id))
    assert shown.metadata.storage_warning == "The storage has 7 MiB left."
    assert world.backend.volumes[service.id].held
    assert not world.backend.volumes[paused.id].held
    world.backend.short_of_room = None
    world.storage_guard.check()
    assert not world.backend.volumes[service.id].held
    assert get_service(world.plane, world.project.id, service.id).storage_warning is None


def test_a_service_is_read_only_while_an_operation_on_it_leaves_it_serving(world: World) -> None:
    service, down = world.create(), world.create("down")
    for one in (service, down):
        optimize_service(world.plane, world.project.id, one.id)
    world.backend.volumes[down.id].running = False
    world.backend.short_of_room = "The storage has 7 MiB left."
    world.storage_guard.check()
    assert [world.backend.volumes[one.id].held for one in (service, down)] == [True, False]
    world.backend.short_of_room = None
    world.storage_guard.check()
    assert not world.backend.volumes[service.id].held


def test_a_service_that_has_used_up_its_quota_is_read_only_alone(world: World) -> None:
    greedy, other = world.create("greedy"), world.create("other")
    world.backend.short_of_quota[greedy.id] = "The service has 7 MiB of its quota left."
    world.storage_guard.check()
    assert world.backend.volumes[greedy.id].held
    assert not world.backend.volumes[other.id].held
    shown = service_shape(get_service(world.plane, world.project.id, greedy.id))
    assert shown.metadata.storage_warning == "The service has 7 MiB of its quota left."
    assert get_service(world.plane, world.project.id, other.id).storage_warning is None
    del world.backend.short_of_quota[greedy.id]
    StorageGuard(world.plane).check()
    assert not world.backend.volumes[greedy.id].held
    assert get_service(world.plane, world.project.id, greedy.id).storage_warning is None


def test_writes_are_allowed_again_though_the_server_was_down_at_the_request(world: World) -> None:
    service = world.create()
    volume = world.backend.volumes[service.id]
    world.backend.short_of_room = "The storage has 7 MiB left."
    volume.running = False
    world.storage_guard.check()
    held_while_down = volume.held
    world.backend.short_of_room = None
    volume.running = True
    world.storage_guard.check()
    assert (held_while_down, volume.held) == (True, False)
    assert get_service(world.plane, world.project.id, service.id).storage_warning is None
