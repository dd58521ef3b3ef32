"""A store that is away for a while: requests are told to come again, and operations go on afterwards."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from ramet.errors import Unavailable
from ramet.store.database import Store
from tests.api.world import JsonObject, World, open_world


@contextmanager
def outage(url: str) -> Iterator[None]:
    """Keep everybody from a database while the body runs."""
    server, _, name = url.replace("+psycopg", "").rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as administrator:
        administrator.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        administrator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        try:
            yield
        finally:
            administrator.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


@pytest.fixture
def world(postgresql_url: str, tmp_path: Path) -> Iterator[World]:
    for made in open_world(tmp_path, postgresql_url):
        yield made
        made.worker.stop()
        made.store.close()


def eventually(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.02)


def status(world: World, service: JsonObject) -> str:
    with suppress(KeyError):
        return str(world.look(service)["status"])
    return ""


def test_requests_are_told_to_come_again_and_the_polled_one_never_with_503(postgresql_url: str, world: World) -> None:
    service = world.ready()
    with outage(postgresql_url):
        for answer in (
            world.get(world.services_path),
            world.post(world.services_path, {"name": "another"}),
            world.post(world.path(service["service_id"], "stop")),
            world.delete(world.path(service["service_id"])),
        ):
            assert (answer.status_code, answer.json()["code"]) == (503, "STORE_UNAVAILABLE")
            assert int(answer.headers["Retry-After"]) > 0
            assert "psycopg" not in answer.text
        polled = world.get(world.path(service["service_id"]))
        assert (polled.status_code, polled.json()["code"]) == (500, "STORE_UNAVAILABLE")
    assert world.look(service)["status"] == "READY"
    assert [one["name"] for one in world.listed()] == ["shop"]


def test_operations_go_on_after_an_outage(postgresql_url: str, world: World) -> None:
    world.worker.start()
    parent = world.create()
    eventually(lambda: status(world, parent) == "READY")
    forks = []
    for _ in range(3):
        forks.append(world.fork(parent))
        with outage(postgresql_url):
            time.sleep(0.2)  # not a wait for anything: the length of the outage
    for fork in forks:
        eventually(lambda fork=fork: status(world, fork) == "READY")  # type: ignore[misc]


def test_a_store_that_does_not_answer_is_given_up_after_a_moment() -> None:
    with socket_that_says_nothing() as port:
        begun = time.monotonic()
        with pytest.raises(Unavailable):
            Store.open(f"postgresql+psycopg://ramet@127.0.0.1:{port}/ramet")
        assert time.monotonic() - begun < 20


@contextmanager
def socket_that_says_nothing() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield silent.getsockname()[1]
