"""What an earlier release started is refreshed as it is then, however long the round takes."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from ramet.backends.interface.values import Server
from ramet.control import replica_sets as sets
from ramet.control.duties.refresh import Refresh
from ramet.control.poolers import disable_pooler, enable_pooler
from ramet.control.services import delete_service, start_service, stop_service
from ramet.model.service import Service
from ramet.store import services
from tests.control.replica_sets import create
from tests.worlds import World

Change = Callable[[World, str], object]


def with_pooler(world: World) -> Service:
    service = world.create()
    enable_pooler(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    return service


def without_pooler(world: World, service_id: str) -> None:
    disable_pooler(world.plane, world.project.id, service_id)


def set_column(world: World, service_id: str, **columns: object) -> None:
    with world.store.write() as tx:
        services.update_service(tx, service_id, **columns)


def settle(world: World, service_id: str, change: Change) -> None:
    """Change a service, and run what was submitted for that."""
    change(world, service_id)
    world.worker.run_until_idle()


@pytest.fixture
def during(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], object]]:
    """Return what happens during the first refresh of which server, to be filled."""
    happening: dict[str, Callable[[], object]] = {}
    refresh = world.backend.servers.refresh

    def wrapped(server: Server) -> bool:
        happening.pop(server.service_id, lambda: None)()
        return refresh(server)

    monkeypatch.setattr(world.backend.servers, "refresh", wrapped)
    return happening


LEFT_ALONE: Mapping[str, Change] = {
    "half promoted": partial(set_column, half_promoted=True),
    "down": partial(set_column, down_reason="Its server is not running."),
    "paused": lambda world, service_id: stop_service(world.plane, world.project.id, service_id),
    "deleted": lambda world, service_id: delete_service(world.plane, world.project.id, service_id),
}


@pytest.mark.parametrize("change", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_one_that_does_not_serve_any_more_is_left_alone(
    world: World, during: dict[str, Callable[[], object]], caplog: pytest.LogCaptureFixture, change: Change
) -> None:
    first, later = world.create(), world.create()
    volume = world.backend.volumes[later.id]
    during[first.id] = lambda: settle(world, later.id, change)
    Refresh(world.plane).apply()
    assert volume.refreshes == 0
    assert "upgrades failed" not in caplog.text


def test_a_service_that_an_operation_changes_waits_for_it(
    world: World, during: dict[str, Callable[[], object]]
) -> None:
    first, later = world.create(), world.create()
    during[first.id] = lambda: stop_service(world.plane, world.project.id, later.id)
    Refresh(world.plane).apply()
    assert world.backend.volumes[later.id].refreshes == 0


def test_a_pooler_that_was_removed_before_its_service_was_reached_stays_away(
    world: World, during: dict[str, Callable[[], object]]
) -> None:
    first, later = world.create(), with_pooler(world)
    during[first.id] = lambda: settle(world, later.id, without_pooler)
    Refresh(world.plane).apply()
    assert not world.backend.poolers.serves(later.id)


def test_a_pooler_that_is_removed_during_the_refresh_stays_away(
    world: World, during: dict[str, Callable[[], object]]
) -> None:
    service, duty = with_pooler(world), Refresh(world.plane)
    during[service.id] = lambda: settle(world, service.id, without_pooler)
    for count in (1, 2, 2):
        duty.apply()
        assert not world.backend.poolers.serves(service.id)
        assert world.backend.volumes[service.id].refreshes == count


def test_what_changes_during_its_refresh_is_refreshed_again(
    world: World, during: dict[str, Callable[[], object]]
) -> None:
    service, duty = world.create(), Refresh(world.plane)
    during[service.id] = lambda: set_column(world, service.id, cpu_millis=4000)
    for count in (1, 2, 2):
        duty.apply()
        assert world.backend.volumes[service.id].refreshes == count


def test_a_service_is_refreshed_again_after_an_operation_that_was_submitted_during_its_refresh(
    world: World, during: dict[str, Callable[[], object]]
) -> None:
    service, duty = world.create(), Refresh(world.plane)
    during[create(world, service).id] = lambda: stop_service(world.plane, world.project.id, service.id)
    duty.apply()
    world.worker.run_until_idle()
    start_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    duty.apply()
    assert world.backend.volumes[service.id].refreshes == 2


def test_the_pooler_of_a_set_that_is_removed_during_the_refresh_stays_away(
    world: World, during: dict[str, Callable[[], object]]
) -> None:
    service = world.create()
    made, duty = create(world, service, nodes=2), Refresh(world.plane)
    project_id = world.project.id
    sets.enable_pooler(world.plane, project_id, service.id, made.id)
    world.worker.run_until_idle()
    during[made.id] = lambda: settle(
        world, service.id, lambda *_: sets.disable_pooler(world.plane, project_id, service.id, made.id)
    )
    for count in (1, 2, 2):
        duty.apply()
        assert not world.backend.poolers.serves(made.id)
        assert [world.backend.volumes[node.id].refreshes for node in made.nodes] == [count, count]


@pytest.mark.parametrize("is_over", [True, False])
def test_a_pooler_and_a_balancer_of_a_service_that_is_paused_during_the_refresh_stop(
    world: World, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    service, duty = with_pooler(world), Refresh(world.plane)
    made = create(world, service, nodes=2)

    def pause_then_start(*_: object) -> None:
        stop_service(world.plane, world.project.id, service.id)
        if is_over:
            end_pause()

    def end_pause() -> None:
        """Run the pause, during which the refresh starts what the pause has stopped already."""
        world.worker.run_until_idle()
        world.backend.volumes[service.id].pooler_port = world.backend.volumes[made.id].balancer_port = 1

    monkeypatch.setattr(world.backend.replicas, "start_balancer", pause_then_start)
    duty.apply()
    if not is_over:
        end_pause()
        duty.apply()
    assert not world.backend.poolers.serves(service.id)
    assert not world.backend.replicas.balancer_serves(made.id)
