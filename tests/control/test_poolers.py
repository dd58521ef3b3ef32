"""Poolers follow their service's row: asked for, given up, repaired, and along through its life."""

import pytest

from ramet.control.poolers import await_end, disable_pooler, enable_pooler, pooler_ports
from ramet.control.ports import free_ports
from ramet.control.requests import ForkRequest
from ramet.control.services import delete_service, get_service, start_service, stop_service
from ramet.errors import WrongState
from ramet.model.fork import ForkStrategy
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.operations.worker import Worker
from ramet.store import services
from tests import procedure_laws as laws
from tests.worlds import World


def enable(world: World, service_id: str) -> int:
    enable_pooler(world.plane, world.project.id, service_id)
    world.worker.run_until_idle()
    port = get_service(world.plane, world.project.id, service_id).pooler_port
    assert port is not None
    return port


def pooler_port(world: World, service_id: str) -> int | None:
    return world.backend.volumes[service_id].pooler_port


def test_a_pooler_has_a_separate_port(world: World) -> None:
    first, second = world.create(), world.create()
    ports = {enable(world, first.id), enable(world, second.id), first.port, second.port}
    assert len(ports) == 4
    assert pooler_port(world, first.id) in ports


def test_enabling_twice_changes_nothing(world: World) -> None:
    service = world.create()
    port = enable(world, service.id)
    assert enable_pooler(world.plane, world.project.id, service.id) is None
    assert enable(world, service.id) == port


def test_a_service_stays_ready_during_the_change(world: World) -> None:
    service = world.create()
    enable_pooler(world.plane, world.project.id, service.id)
    assert status_of(get_service(world.plane, world.project.id, service.id)) is Status.READY


def test_a_disabled_pooler_is_gone_and_its_port_free(world: World) -> None:
    service = world.create()
    port = enable(world, service.id)
    disable_pooler(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert pooler_port(world, service.id) is None
    assert disable_pooler(world.plane, world.project.id, service.id) is None
    with world.store.write() as tx:
        assert port not in services.used_ports(tx)


def test_a_pooler_comes_back_at_its_port_while_that_is_free(world: World) -> None:
    service = world.create()
    ports = set()
    for _ in range(3):
        ports.add(enable(world, service.id))
        disable_pooler(world.plane, world.project.id, service.id)
        world.worker.run_until_idle()
    assert len(ports) == 1
    port, other = ports.pop(), world.create()
    with world.store.write() as tx:
        services.update_service(tx, other.id, pooler_port=port)
    assert enable(world, service.id) != port


def test_the_last_word_holds_when_both_are_asked_at_once(world: World) -> None:
    service = world.create()
    enable_pooler(world.plane, world.project.id, service.id)
    disable_pooler(world.plane, world.project.id, service.id)
    enable_pooler(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert pooler_port(world, service.id) == get_service(world.plane, world.project.id, service.id).pooler_port
    assert pooler_port(world, service.id) is not None


def test_it_pauses_and_resumes_with_its_service(world: World) -> None:
    service = world.create()
    port = enable(world, service.id)
    stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert pooler_port(world, service.id) is None
    start_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert pooler_port(world, service.id) == port


def test_a_paused_service_gets_its_pooler_when_it_is_resumed(world: World) -> None:
    service = world.create()
    stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    port = enable(world, service.id)
    assert pooler_port(world, service.id) is None
    start_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert pooler_port(world, service.id) == port


def test_a_fork_has_no_pooler(world: World) -> None:
    service = world.create()
    enable(world, service.id)
    assert world.fork(service, ForkRequest(ForkStrategy.NOW)).pooler_port is None


def test_a_pooler_that_fell_is_started_again(world: World) -> None:
    service = world.create()
    port = enable(world, service.id)
    world.backend.poolers.stop(service.id)
    world.health.inspect()
    world.worker.run_until_idle()
    assert pooler_port(world, service.id) == port


def test_one_that_is_being_enabled_is_not_called_down(world: World, caplog: pytest.LogCaptureFixture) -> None:
    service = world.create()
    enable_pooler(world.plane, world.project.id, service.id)
    world.health.inspect()
    assert "down" not in caplog.text


def test_one_that_cannot_be_started_is_taken_back_with_its_reason(world: World) -> None:
    service = world.create()
    operation_id = enable_pooler(world.plane, world.project.id, service.id)
    failing = laws.rewritten(world.procedures, "pooler", lambda p: laws.failing(p, "follow", after=True))
    Worker(world.store, failing).run_until_idle()
    with pytest.raises(WrongState, match="Injected"):
        await_end(world.store, operation_id, 1)
    assert get_service(world.plane, world.project.id, service.id).pooler_port is None
    assert pooler_port(world, service.id) is None


def test_one_that_could_not_be_started_is_tried_at_another_port(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = world.create()
    refused = free_ports(world.plane, owner=service.id)[0]
    operation_id = enable_pooler(world.plane, world.project.id, service.id)
    assert get_service(world.plane, world.project.id, service.id).pooler_port == refused
    failing = laws.rewritten(world.procedures, "pooler", lambda p: laws.failing(p, "follow", after=False))
    Worker(world.store, failing).run_until_idle()
    with pytest.raises(WrongState, match="Injected"):
        await_end(world.store, operation_id, 1)
    other = world.plane.placement.ports.index(refused) - 1
    monkeypatch.setattr("ramet.control.ports.secrets.randbelow", lambda count: other % count)
    assert (working := enable(world, service.id)) != refused
    disable_pooler(world.plane, world.project.id, service.id)
    Worker(world.store, world.procedures).run_until_idle()
    assert pooler_ports(world.plane, service.id)[0] == free_ports(world.plane, owner=service.id)[0] != working


def test_a_service_that_is_going_is_given_none(world: World) -> None:
    service = world.create()
    delete_service(world.plane, world.project.id, service.id)
    with pytest.raises(WrongState):
        enable_pooler(world.plane, world.project.id, service.id)
