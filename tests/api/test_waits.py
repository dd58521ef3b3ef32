"""Responses that wait until the operation that a service's status shows is over."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import cast

import httpx
import pytest
from sqlalchemy.pool import QueuePool

from ramet.api.parameters import preferred_wait
from ramet.control import services, waits
from ramet.control.plane import Plane
from ramet.control.waits import LONGEST_SECONDS, Waits
from ramet.errors import NotFound, Unavailable
from ramet.model.service import Service, shown_status
from ramet.model.status import PASSING, Status
from ramet.monitoring.instruments import Instruments
from tests.api.world import JsonObject, World

AT_ONCE = 100


def asked(world: World, service: JsonObject, prefer: str) -> httpx.Response:
    path, headers = world.path(service["service_id"]), {"Prefer": prefer}
    return world.client.get(path, auth=world.tenant.credentials, headers=headers)


@contextmanager
def waiting(world: World, service: JsonObject) -> Iterator[Callable[[], httpx.Response]]:
    """Ask for a service, and yield what returns the response once it is there; within the block it is awaited."""
    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(asked, world, service, f"wait={LONGEST_SECONDS}")
        yield sent.result


def settled(world: World, service: JsonObject, own: Waits) -> Iterator[asyncio.Task[Service]]:
    while True:
        waiting = own.settled(world.plane, world.tenant.project.id, service["service_id"], LONGEST_SECONDS)
        yield asyncio.get_running_loop().create_task(waiting)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("wait=10", 10),
        ("respond-async, WAIT = 7 ", 7),
        ('wait="5"; x=1, return=minimal', 5),
        ("wait=100000", LONGEST_SECONDS),
        ("wait=0", 0),
        ("wait=-1", 0),
        ("wait=1.5", 0),
        ("wait", 0),
        ("await=3", 0),
        ("x=wait=3", 0),
        (None, 0),
    ],
)
def test_the_wait_of_a_prefer_header_is_bounded_and_an_invalid_one_is_none(header: str | None, seconds: int) -> None:
    assert preferred_wait(header) == seconds


def test_a_response_that_need_not_wait_comes_at_once_and_says_what_was_applied(world: World) -> None:
    ready = world.ready()
    response = asked(world, ready, "wait=20")
    assert (response.status_code, response.headers["Preference-Applied"]) == (200, "wait=20")
    assert response.json() == world.look(ready)


def test_without_the_preference_nothing_is_new(world: World) -> None:
    queued = world.create()
    for response in (world.get(world.path(queued["service_id"])), asked(world, queued, "wait=soon")):
        assert "Preference-Applied" not in response.headers
        assert response.json()["status"] == Status.QUEUED


def test_a_response_comes_when_the_service_is_ready(world: World) -> None:
    queued = world.create()
    with waiting(world, queued) as response:
        world.work()
        assert response().json()["status"] == Status.READY


def test_a_wait_for_a_deletion_ends_in_404(world: World) -> None:
    ready = world.ready()
    world.delete(world.path(ready["service_id"]))
    with waiting(world, ready) as response:
        world.work()
        assert response().status_code == 404


def test_a_read_replica_set_is_awaited_by_its_own_id(world: World) -> None:
    ready = world.ready(cpu_millis="1000", memory_gbs="4")
    body = {"name": "reader", "nodes": 1, "cpu_millis": 500, "memory_gbs": 2}
    made = world.post(world.path(ready["service_id"], "replicaSets"), body).json()
    with waiting(world, {"service_id": made["id"]}) as response:
        world.work()
        assert response().json()["status"] == Status.READY


def test_a_read_replica_set_is_not_read_again_and_again_while_its_service_is_paused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, own, read = world.ready(cpu_millis="1000", memory_gbs="4"), Waits(world.plane), services.get_service
    body = {"name": "reader", "nodes": 1, "cpu_millis": 500, "memory_gbs": 2}
    made = world.post(world.path(ready["service_id"], "replicaSets"), body).json()
    world.work()
    world.post(world.path(ready["service_id"], "stop"))
    counted: list[str] = []

    def get_service(plane: Plane, project_id: str, service_id: str) -> Service:
        counted.append(service_id)
        return read(plane, project_id, service_id)

    monkeypatch.setattr(waits, "get_service", get_service)

    async def wait() -> None:
        task = next(settled(world, {"service_id": made["id"]}, own))
        await asyncio.sleep(0)
        looks, over = [0], Waits._over
        enough = asyncio.Event()

        def look(self: Waits) -> set[str]:
            looks[0] += 1
            if looks[0] == 5:
                enough.set()
            return over(self)

        monkeypatch.setattr(Waits, "_over", look)
        await enough.wait()
        assert counted == [made["id"]]
        await asyncio.to_thread(world.work)
        assert shown_status(await task) is Status.PAUSED

    asyncio.run(wait())


def test_a_wait_ends_with_its_time(world: World) -> None:
    assert asked(world, world.create(), "wait=1").json()["status"] == Status.QUEUED


def test_those_who_wait_hold_no_thread_and_no_connection(world: World) -> None:
    queued, own, idle = world.create(), Waits(world.plane), cast("QueuePool", world.store.engine.pool).checkedout()

    async def wait() -> None:
        tasks = [task for task, _ in zip(settled(world, queued, own), range(AT_ONCE), strict=False)]
        await asyncio.sleep(0)
        assert cast("QueuePool", world.store.engine.pool).checkedout() == idle
        await asyncio.to_thread(world.work)
        assert {service.down_reason for service in await asyncio.gather(*tasks)} == {None}
        assert not own._waiting

    asyncio.run(wait())


def test_a_change_in_this_process_ends_the_wait_without_another_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "_LOOK_SECONDS", 3600.0)
    queued, own = world.create(), Waits(world.plane)
    world.store.recorders.append(own.record)

    async def wait() -> None:
        task = next(settled(world, queued, own))
        await asyncio.sleep(0)
        await asyncio.to_thread(world.work)
        assert (await task).ready_at is not None

    asyncio.run(wait())


def test_who_would_hold_too_many_connections_waits_no_longer_and_others_do(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued, held, waited = world.create(), world.plane.held, list[bool]()

    async def wait(_waits: Waits, service_id: str, seconds: float) -> None:
        waited.append(held.has_room(world.tenant.project.id))
        await asyncio.to_thread(world.work)

    monkeypatch.setattr(Waits, "_wait", wait)
    while held.acquire(world.tenant.project.id):
        pass
    assert asked(world, queued, "wait=20").json()["status"] == Status.QUEUED
    assert waited == []
    held.release(world.tenant.project.id)
    assert asked(world, queued, "wait=20").json()["status"] == Status.READY
    assert waited == [False]
    assert held.has_room(world.tenant.project.id)


def test_a_server_that_stops_answers_those_who_wait(world: World) -> None:
    queued, own = world.create(), Waits(world.plane)

    async def wait() -> None:
        task = next(settled(world, queued, own))
        await asyncio.sleep(0)
        await asyncio.to_thread(own.close)
        assert (await task).ready_at is None

    asyncio.run(wait())


def test_a_wait_in_another_event_loop_is_no_different(world: World) -> None:
    own = Waits(world.plane)
    for name in ("one", "two"):
        queued = world.create(name=name)

        async def wait(queued: JsonObject = queued) -> None:
            task = next(settled(world, queued, own))
            await asyncio.sleep(0)
            await asyncio.to_thread(world.work)
            assert (await task).ready_at is not None

        asyncio.run(wait())


def test_an_outage_of_the_store_ends_the_wait_as_it_ends_every_other_request(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued = world.create()

    def unavailable(*_: object) -> Service:
        raise Unavailable("STORE_UNAVAILABLE", "The store cannot be reached now", "Try again shortly.")

    looked: list[int] = []

    def claimed(*_: object) -> set[str]:
        looked.append(1)
        monkeypatch.setattr(waits, "get_service", unavailable)
        return unavailable()  # type: ignore[return-value]

    monkeypatch.setattr("ramet.store.services.claimed_among", claimed)
    response = asked(world, queued, "wait=20")
    assert (response.status_code, response.json()["code"], looked) == (500, "STORE_UNAVAILABLE", [1])


def test_a_service_that_the_key_does_not_see_is_not_awaited(world: World) -> None:
    with pytest.raises(NotFound):
        asyncio.run(Waits(world.plane).settled(world.plane, "p" * 10, world.create()["service_id"], 20))


def test_the_time_that_a_client_wanted_to_wait_is_no_duration_of_the_request() -> None:
    instruments = Instruments("1")
    scope = {"method": "GET", "path_template": "/x", "state": {"waited_seconds": 1000.0}}
    instruments.begin_request(scope)(200)
    labels = {"route": "/x", "method": "GET", "status": "200"}
    assert (instruments.registry.get_sample_value("ramet_http_request_seconds_sum", labels) or 0) < -900


def test_every_passing_status_is_one_of_the_interface() -> None:
    assert set(Status) - {Status.READY, Status.PAUSED, Status.UNSTABLE, Status.DELETED} == PASSING
