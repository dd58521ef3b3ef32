"""Services that exist get another host: all of them, each by an operation, with what was announced before."""

from collections.abc import Callable

import pytest

from ramet.api.shapes import service_shape
from ramet.control import poolers, replica_sets, services, sleep
from ramet.control.addresses import Move, pending_moves, planned_moves, request_moves, unmoved
from ramet.control.duties.addresses import move_services
from ramet.control.replica_sets import ReplicaSetRequest
from ramet.errors import Failed
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.store import services as rows
from tests.worlds import World, look


def move(world: World, host: str, has_tls: Callable[[int], bool] = lambda _major: True) -> list[Move]:
    """Let all services get a host, and work until they have it."""
    moves = list(planned_moves(world.store, host, has_tls))
    request_moves(world.store, moves)
    while pending_moves(world.store):
        move_services(world.plane)
        world.worker.run_until_idle()
    return moves


def test_a_service_its_pooler_and_its_replicas_announce_the_new_host(world: World) -> None:
    service = world.create()
    made = replica_sets.create_set(
        world.plane, world.project.id, service.id, ReplicaSetRequest("reports", 2, "500", "2")
    )
    world.worker.run_until_idle()
    poolers.enable_pooler(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    (planned,) = move(world, "db.example.com")
    assert planned.restarts  # until now it listened on localhost only
    moved = look(world, service)
    shown = service_shape(moved)
    assert shown.connection_pooler is not None
    assert shown.connection_pooler.endpoint is not None
    hosts = [shown.endpoint, shown.connection_pooler.endpoint, shown.read_replica_sets[0].endpoint]
    assert [endpoint.host for endpoint in hosts] == ["db.example.com"] * 3
    assert (shown.endpoint.port, status_of(moved)) == (service.port, Status.READY)
    assert shown.metadata.earlier_hosts == ("localhost",)
    for name in (service.id, made.id):
        assert world.backend.volumes[name].is_open
        assert world.backend.volumes[name].earlier_hosts == ("localhost",)


def test_from_name_to_name_the_server_serves_on_and_three_hosts_of_before_are_known(world: World) -> None:
    service = world.create()
    move(world, "a.example.com")
    starts = world.backend.volumes[service.id]
    for name in "bcde":
        (planned,) = move(world, f"{name}.example.com")
        assert not planned.restarts
        assert starts.host == f"{name}.example.com"
    move(world, "d.example.com")
    assert look(world, service).host == "d.example.com"
    assert service_shape(look(world, service)).metadata.earlier_hosts == (
        "e.example.com", "c.example.com", "b.example.com"
    )  # fmt: skip


def test_a_paused_service_stays_paused_and_one_that_sleeps_sleeps_on(world: World) -> None:
    paused, sleeping = world.create("paused"), world.create("sleeping")
    services.stop_service(world.plane, world.project.id, paused.id)
    sleep.set_sleep(world.plane, world.project.id, sleeping.id, 60)
    world.worker.run_until_idle()
    assert sleep.submit_sleep(world.plane, sleeping.id)
    world.worker.run_until_idle()
    assert not any(one.restarts for one in move(world, "db.example.com"))
    assert [status_of(look(world, one)) for one in (paused, sleeping)] == [Status.PAUSED] * 2
    assert look(world, sleeping).asleep
    assert not any(world.backend.volumes[one.id].running for one in (paused, sleeping))
    services.start_service(world.plane, world.project.id, paused.id)
    world.worker.run_until_idle()
    assert world.backend.volumes[paused.id].host == "db.example.com"


def test_a_service_that_something_works_on_has_its_turn_later(world: World) -> None:
    service = world.create()
    services.stop_service(world.plane, world.project.id, service.id)
    request_moves(world.store, planned_moves(world.store, "db.example.com", lambda _major: True))
    move_services(world.plane)
    assert (look(world, service).host, pending_moves(world.store)) == ("localhost", 1)
    world.worker.run_until_idle()
    move_services(world.plane)
    world.worker.run_until_idle()
    assert (look(world, service).host, pending_moves(world.store)) == ("db.example.com", 0)


def test_a_server_without_tls_stays_on_this_host(world: World) -> None:
    world.create()
    assert move(world, "db.example.com", lambda _major: False) == []


def test_a_failure_leaves_the_host_of_before_and_says_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = world.create()

    def fail(_server: object) -> bool:
        raise Failed("INJECTED", "The disk is full")

    monkeypatch.setattr(world.backend.endpoints, "readdress", fail)
    moves = move(world, "db.example.com")
    (kept,) = unmoved(world.store, moves)
    assert (kept.id, kept.host) == (service.id, "localhost")
    assert kept.down_reason == "Its address could not be changed: The disk is full"
    assert "earlier_hosts" not in look(world, service).settings


def test_a_deleted_service_is_not_waited_for(world: World) -> None:
    service = world.create()
    moves = planned_moves(world.store, "db.example.com", lambda _major: True)
    services.delete_service(world.plane, world.project.id, service.id)
    request_moves(world.store, moves)
    world.worker.run_until_idle()
    move_services(world.plane)
    assert (pending_moves(world.store), unmoved(world.store, moves)) == (0, [])


def test_a_service_that_is_half_promoted_is_not_waited_for_and_gets_its_host_later(world: World) -> None:
    service = world.create()
    moves = planned_moves(world.store, "db.example.com", lambda _major: True)
    request_moves(world.store, moves)
    with world.store.write() as tx:
        rows.update_service(tx, service.id, half_promoted=True)
    move_services(world.plane)
    assert pending_moves(world.store) == 0
    assert [one.id for one in unmoved(world.store, moves)] == [service.id]
    with world.store.write() as tx:
        rows.update_service(tx, service.id, half_promoted=False)
    move_services(world.plane)
    world.worker.run_until_idle()
    assert look(world, service).host == "db.example.com"
