"""What the log says when `ramet up` finds servers down: they end with `ramet down` and with the host."""

import logging
import time

import pytest

from ramet.control import replica_sets
from ramet.control.duties.health import Health
from tests.control.replica_sets import create
from tests.control.test_poolers import enable
from tests.worlds import World


def _family(world: World) -> list[str]:
    """Make a service with a pooler and replicas that have one too; return the ids of all servers."""
    service = world.create()
    made = create(world, service)
    replica_sets.enable_pooler(world.plane, world.project.id, service.id, made.id)
    world.worker.run_until_idle()
    enable(world, service.id)
    return [service.id, *(node.id for node in made.nodes)]


def _stop(world: World, server_ids: list[str]) -> None:
    """Stop everything, as `ramet down` does."""
    for server_id in server_ids:
        world.backend.crash(server_id)
    for volume in world.backend.volumes.values():
        volume.pooler_port = None


def _inspect_until_all_serve(world: World, health: Health, server_ids: list[str]) -> None:
    for _ in range(3):  # servers first, then their poolers
        health.inspect()
        world.worker.run_until_idle()
        for server_id in server_ids:
            world.backend.volumes[server_id].is_open = True
    health.inspect()


def test_a_normal_start_logs_no_warning(world: World, caplog: pytest.LogCaptureFixture) -> None:
    server_ids = _family(world)
    _stop(world, server_ids)
    with caplog.at_level(logging.WARNING):
        _inspect_until_all_serve(world, Health(world.plane), server_ids)
    assert [record.message for record in caplog.records] == []
    assert all(world.backend.volumes[server_id].running for server_id in server_ids)


def test_what_goes_down_while_ramet_is_up_is_a_warning(world: World, caplog: pytest.LogCaptureFixture) -> None:
    server_ids = _family(world)
    health = Health(world.plane)
    health.inspect()
    _stop(world, server_ids)
    with caplog.at_level(logging.WARNING):
        _inspect_until_all_serve(world, health, server_ids)
    said = "\n".join(record.message for record in caplog.records)
    assert f"server of service {server_ids[0]} is down" in said
    assert "read replica set" in said
    world.backend.poolers.stop(server_ids[0])
    health.inspect()
    assert f"pooler of {server_ids[0]} is down" in caplog.text


def test_a_replica_that_turns_clients_away_is_opened_again(world: World) -> None:
    service = world.create()
    (node,) = create(world, service).nodes
    world.backend.volumes[node.id].is_open = False
    Health(world.plane).inspect()
    world.worker.run_until_idle()
    assert world.backend.volumes[node.id].is_open


def test_a_start_that_fails_is_a_warning_at_the_next_one(world: World, caplog: pytest.LogCaptureFixture) -> None:
    service = world.create()
    health = Health(world.plane)
    world.backend.crash(service.id)
    with caplog.at_level(logging.WARNING):
        health.inspect()
        assert caplog.text == ""
        deadline = time.monotonic() + 60
        while "is down" not in caplog.text:
            assert time.monotonic() < deadline, "the server that did not start is not started again"
            world.worker.run_until_idle()
            world.backend.crash(service.id)
            health.inspect()
