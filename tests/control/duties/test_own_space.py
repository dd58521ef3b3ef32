"""What services occupy of their own: measured within a share of the time, kept, and shown without measuring."""

import pytest

from ramet.control.duties.own_space import EVERY, OwnSpace
from ramet.control.duties.sampling import Sampling
from ramet.control.metrics import CURRENT, own_space, usage_now, usages_now
from ramet.control.services import stop_service
from ramet.errors import Failed
from ramet.model.metrics import Usage
from ramet.store import metrics
from tests.worlds import World


@pytest.fixture(name="measured")
def _measured(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The services that were measured, each of which takes 15 ms of `seconds`."""
    asked: list[str] = []

    def disk_usage(service_id: str) -> int:
        asked.append(service_id)
        _SECONDS[0] += 0.015
        return 7_000_000

    _SECONDS[0] = 0.0
    monkeypatch.setattr(world.backend.host, "disk_usage", disk_usage)
    return asked


_SECONDS = [0.0]


def _duty(world: World, services: int) -> tuple[OwnSpace, list[str]]:
    """Return the duty, and as many services that were sampled."""
    made = [world.create(f"s{n}").id for n in range(services)]
    Sampling(world.plane).sample()
    return OwnSpace(world.plane, lambda: _SECONDS[0]), made


def test_it_rests_fifty_times_as_long_as_it_works(world: World, measured: list[str]) -> None:
    duty, made = _duty(world, 3)
    duty.measure()
    assert len(measured) == 2
    duty.measure()
    _SECONDS[0] += 1.4
    duty.measure()
    assert len(measured) == 2
    _SECONDS[0] += 0.2
    duty.measure()
    assert sorted(measured) == sorted(made)
    assert own_space(world.plane, world.project.id) == dict.fromkeys(made, 7_000_000)


def test_one_is_measured_again_when_that_was_long_ago_also_while_it_is_paused(
    world: World, measured: list[str]
) -> None:
    duty, (service_id,) = _duty(world, 1)
    duty.measure()
    stop_service(world.plane, world.project.id, service_id)
    world.worker.run_until_idle()
    _SECONDS[0] += 10
    duty.measure()
    assert len(measured) == 1
    with world.store.write() as tx:
        metrics.put_own_space(tx, {service_id: 1}, world.plane.clock() - EVERY)
    duty.measure()
    assert len(measured) == 2


def test_a_sample_keeps_it_and_it_outlasts_what_was_sampled(world: World, measured: list[str]) -> None:
    duty, (service_id,) = _duty(world, 1)
    duty.measure()
    now = world.plane.clock()
    with world.store.write() as tx:
        metrics.put_usage(tx, {service_id: Usage(1, 2, 3)}, now)
    assert usages_now(world.plane, world.project.id) == {service_id: Usage(1, 2, 3, 7_000_000)}
    with world.store.write() as tx:
        metrics.put_usage(tx, {service_id: Usage(1, 2, 3)}, now - 2 * CURRENT)
    assert usages_now(world.plane, world.project.id) == {service_id: Usage(None, None, None, 7_000_000)}
    assert usage_now(world.plane, service_id) == Usage(None, None, None, 7_000_000)


def test_where_the_host_cannot_tell_it_is_not_asked_at_once_again(
    world: World, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    duty, (service_id,) = _duty(world, 1)

    def broken(service_id: str) -> int:
        measured.append(service_id)
        raise Failed("BROKEN", "It cannot be determined")

    monkeypatch.setattr(world.backend.host, "disk_usage", broken)
    duty.measure()
    duty.measure()
    assert len(measured) == 1
    assert own_space(world.plane, world.project.id) == {service_id: None}
