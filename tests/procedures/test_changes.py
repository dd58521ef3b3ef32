"""What is left of a change of what a server can only start with, when it fails after the server was started."""

from collections.abc import Callable
from itertools import product

import pytest

from ramet.backends.interface.values import Readiness, Server
from ramet.control.addresses import planned_moves, request_moves
from ramet.control.duties.addresses import move_services
from ramet.control.high_availability import set_ha
from ramet.control.parameters import update_settings
from ramet.control.replication import set_wal_level
from ramet.control.services import get_service, resize_service
from ramet.control.sleep import set_sleep
from ramet.errors import Failed, Unavailable
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.model.wal_level import WalLevel, wal_level_of
from ramet.procedures.servers import server_of
from tests.worlds import World

Change = Callable[[World, Service], object]


def resize(world: World, service: Service) -> object:
    return resize_service(world.plane, world.project.id, service.id, "1000", "4")


def change_settings(world: World, service: Service) -> object:
    return update_settings(world.plane, world.project.id, service.id, {"max_connections": "200"}, restarts=True)


def let_sleep(world: World, service: Service) -> object:
    return set_sleep(world.plane, world.project.id, service.id, 60)


def move(world: World, _service: Service) -> object:
    request_moves(world.store, planned_moves(world.store, "db.example.com", lambda _major: True))
    move_services(world.plane)
    return None


def set_standbys(world: World, service: Service) -> object:
    world.backend.has_standbys = True
    return set_ha(world.plane, world.project.id, service.id, 1)


def set_logical(world: World, service: Service) -> object:
    return set_wal_level(world.plane, world.project.id, service.id, WalLevel.LOGICAL)


@pytest.fixture
def started(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Server]:
    """What servers were started with, from now on."""
    found: list[Server] = []
    start = world.backend.servers.start

    def noting(server: Server, *, clients: bool = False, first: bool = False) -> None:
        if not world.backend.volumes[server.service_id].running:
            found.append(server)
        start(server, clients=clients, first=first)

    monkeypatch.setattr(world.backend.servers, "start", noting)
    return found


def cannot_be_watched(_server: Server, _seconds: float) -> Readiness:
    raise Failed("NO_LIMITS", "Its limits cannot be set")


def cannot_be_opened(_server: Server) -> None:
    raise Failed("NO_CERTIFICATE", "The certificate cannot be read")


def after(world: World, service: Service) -> Service:
    """Let the observer restart what is down; return the service after that."""
    world.health.inspect()
    world.worker.run_until_idle()
    return get_service(world.plane, world.project.id, service.id)


@pytest.mark.parametrize(
    ("change", "fault"),
    [*product((resize, change_settings, let_sleep, move), ("await_ready", "open")), (set_logical, "await_ready")],
)
def test_a_server_of_a_change_that_fails_is_started_again_as_it_was_before(
    world: World, monkeypatch: pytest.MonkeyPatch, started: list[Server], change: Change, fault: str
) -> None:
    service = world.create()
    if change is let_sleep:
        monkeypatch.setattr(world.backend.endpoints, "check", lambda: None)
    before = server_of(service)
    started.clear()
    with monkeypatch.context() as broken:
        broken.setattr(world.backend.servers, fault, cannot_be_watched if fault == "await_ready" else cannot_be_opened)
        change(world, service)
        world.worker.run_until_idle()
    found = after(world, service)
    assert (status_of(found), server_of(found)) == (Status.READY, before)
    assert len(started) == 2
    assert started[0] != before
    assert started[1] == before


@pytest.mark.parametrize("change", [resize, set_standbys])
def test_a_change_of_a_service_whose_volume_is_lost_ends(world: World, change: Change) -> None:
    service = world.create()
    before = server_of(service)
    change(world, service)
    del world.backend.volumes[service.id]
    world.worker.run_until_idle()
    found = get_service(world.plane, world.project.id, service.id)
    assert (found.activity, server_of(found)) == (None, before)


def test_a_server_that_is_killed_at_each_start_is_left_to_the_observer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, stops = world.backend.servers.stop, iter([True])

    def stop_once(server: Server) -> None:
        if not next(stops, False):
            raise Unavailable("SERVER_KILLED", f"The server of service {server.service_id} was killed while starting")
        stop(server)

    service = world.create()
    monkeypatch.setattr(world.backend.servers, "await_ready", cannot_be_watched)
    monkeypatch.setattr(world.backend.servers, "stop", stop_once)
    set_logical(world, service)
    world.worker.run_until_idle()
    found = get_service(world.plane, world.project.id, service.id)
    assert (status_of(found), found.activity) == (Status.UNSTABLE, None)
    assert wal_level_of(found.settings) is WalLevel.REPLICA


def test_a_wal_level_that_is_in_force_stays_when_the_server_cannot_be_opened(
    world: World, monkeypatch: pytest.MonkeyPatch, started: list[Server]
) -> None:
    service = world.create()
    started.clear()
    with monkeypatch.context() as broken:
        broken.setattr(world.backend.servers, "open", cannot_be_opened)
        set_logical(world, service)
        world.worker.run_until_idle()
    world.backend.volumes[service.id].slots.add("feed")
    failed = get_service(world.plane, world.project.id, service.id)
    assert failed.down_reason == "The change of its wal_level failed: The certificate cannot be read"
    found = after(world, service)
    assert (status_of(found), wal_level_of(found.settings)) == (Status.READY, WalLevel.LOGICAL)
    assert [server.wal_level for server in started] == [WalLevel.LOGICAL]


def test_a_wal_level_is_not_in_force_before_the_admin_may_replicate(
    world: World, monkeypatch: pytest.MonkeyPatch, started: list[Server]
) -> None:
    def is_locked(_server: Server) -> None:
        raise Failed("ROLE_LOCKED", "The role tsdbadmin is locked")

    service = world.create()
    started.clear()
    with monkeypatch.context() as broken:
        broken.setattr(world.backend.replication, "permit", is_locked)
        set_logical(world, service)
        world.worker.run_until_idle()
    found = after(world, service)
    assert (status_of(found), wal_level_of(found.settings)) == (Status.READY, WalLevel.REPLICA)
    assert [server.wal_level for server in started] == [WalLevel.LOGICAL, WalLevel.REPLICA]
    set_logical(world, service)
    world.worker.run_until_idle()
    again = get_service(world.plane, world.project.id, service.id)
    assert (status_of(again), wal_level_of(again.settings)) == (Status.READY, WalLevel.LOGICAL)
    assert world.backend.volumes[service.id].replicates
