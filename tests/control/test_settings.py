"""Changes of a service's settings that fail."""

from collections.abc import Collection

import pytest

from ramet.backends.interface.values import Observation, Server
from ramet.control.parameters import update_settings
from ramet.control.requests import CreateRequest
from ramet.control.services import create_service, get_service
from ramet.errors import Unavailable, Unseen, WrongState
from ramet.model.parameters import parameters_of
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.operations.worker import Worker
from tests import procedure_laws as laws
from tests.worlds import World


def change(world: World, service: Service, *, fails_at: str, **settings: str) -> Service:
    update_settings(world.plane, world.project.id, service.id, settings, restarts=True)
    procedures = laws.rewritten(world.procedures, "set_parameters", lambda one: laws.failing(one, fails_at, after=True))
    Worker(world.store, procedures).run_until_idle()
    return get_service(world.plane, world.project.id, service.id)


def test_settings_of_a_service_without_files_are_refused_before_they_are_tried(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_server: Server) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(world.backend.parameters, "check", write)
    queued = create_service(world.plane, world.project.id, CreateRequest("shop")).service
    with pytest.raises(WrongState, match="is QUEUED"):
        update_settings(world.plane, world.project.id, queued.id, {"work_mem": "5MB"})


def test_the_undo_ends_though_postgresql_no_longer_takes_the_settings_of_before(world: World) -> None:
    service = world.create()
    update_settings(world.plane, world.project.id, service.id, {"work_mem": "5MB"}, restarts=False)
    world.worker.run_until_idle()
    world.backend.unacceptable = "5MB"
    left = change(world, service, fails_at="apply", work_mem="7MB")
    assert (left.activity, left.down_reason, status_of(left)) == (None, None, Status.READY)
    assert parameters_of(left.settings) == {"work_mem": "5MB"}


def test_a_server_that_did_not_start_with_them_says_so_and_gets_those_of_before(world: World) -> None:
    left = change(world, world.create(), fails_at="stop", max_connections="200")
    assert status_of(left) is Status.UNSTABLE
    assert "could not be changed: Injected at stop" in (left.down_reason or "")
    assert parameters_of(left.settings) == {}
    world.health.inspect()
    world.worker.run_until_idle()
    assert status_of(get_service(world.plane, world.project.id, left.id)) is Status.READY


@pytest.mark.parametrize(
    "error",
    [Unseen("NO_ANSWER", "This process has no free file descriptor"), Unavailable("SERVER_UNREACHABLE", "It is busy")],
)
def test_a_server_that_serves_and_cannot_be_asked_once_is_restarted_with_them(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    apply, errors = world.backend.parameters.apply, [error]

    def fail_once(server: Server) -> Collection[str]:
        if errors:
            raise errors.pop()
        return apply(server)

    service = world.create()
    monkeypatch.setattr(world.backend.parameters, "apply", fail_once)
    update_settings(world.plane, world.project.id, service.id, {"max_connections": "200"}, restarts=True)
    world.worker.run_until_idle(horizon_seconds=10.0)
    assert in_force(world, service) == {"max_connections": "200"}


def test_a_server_that_starts_with_those_of_before_is_restarted_with_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_server: Server) -> Collection[str]:
        raise Unavailable("SERVER_UNREACHABLE", "It is not serving")

    service = world.create()
    monkeypatch.setattr(world.backend.parameters, "apply", refuse)
    monkeypatch.setattr(world.backend.servers, "inspect", lambda _server: Observation(False, "It starts."))
    update_settings(world.plane, world.project.id, service.id, {"max_connections": "200"}, restarts=True)
    world.worker.run_until_idle()
    assert in_force(world, service) == {"max_connections": "200"}


def in_force(world: World, service: Service) -> dict[str, str]:
    return world.backend.volumes[service.id].parameters
