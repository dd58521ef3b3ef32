"""A store that is unavailable for a while: responses ask clients to retry, and operations continue afterwards."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest
import sqlalchemy as sa

from harness.waiting import eventually
from ramet.endpoints import BASE_PATH
from ramet.errors import Unavailable
from ramet.store import silence
from ramet.store.database import Store
from tests.api.world import JsonObject, World, open_world
from tests.servers import postgresql

PATIENCE_SECONDS = 120


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


def status(world: World, service: JsonObject) -> str:
    with suppress(KeyError):
        return str(world.look(service)["status"])
    return ""


def test_clients_are_asked_to_retry_and_the_polled_request_never_answers_503(postgresql_url: str, world: World) -> None:
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


def test_changes_are_asked_to_retry_while_the_store_is_read_only(postgresql_url: str, world: World) -> None:
    service = world.ready()
    server, _, name = postgresql_url.replace("+psycopg", "").rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as administrator:
        administrator.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        administrator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        answer = world.delete(world.path(service["service_id"]))
        assert (answer.status_code, answer.json()["code"]) == (503, "STORE_UNAVAILABLE")
        assert "read-only" in answer.json()["message"]
        assert world.look(service)["status"] == "READY"
        administrator.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    # As after a failover: connections of before are given up.
    eventually(lambda: world.delete(world.path(service["service_id"])).status_code < 300)


def test_operations_continue_after_an_outage(postgresql_url: str, world: World) -> None:
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


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_given_up_after_a_bounded_time() -> None:
    with socket_that_says_nothing() as port, pytest.raises(Unavailable):
        Store.open(f"postgresql+psycopg://ramet@127.0.0.1:{port}/ramet")


@contextmanager
def socket_that_says_nothing() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield silent.getsockname()[1]


@contextmanager
def frozen(url: str) -> Iterator[None]:
    """Stop every process of a server of this test's own, without ending any, while the body runs."""
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        server = psutil.Process(connection.info.backend_pid).parent()
    assert server is not None
    processes = [server, *server.children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def test_a_frozen_store_keeps_no_request_waiting_and_work_continues_when_it_answers_again(tmp_path: Path) -> None:
    with postgresql() as url, ThreadPoolExecutor(8) as threads:
        for world in open_world(tmp_path, url):
            service = world.ready()
            with frozen(url):
                polled = threads.submit(world.get, world.path(service["service_id"]))
                answer = polled.result(PATIENCE_SECONDS)
                assert (answer.status_code, answer.json()["code"]) == (500, "STORE_UNAVAILABLE")
                document = threads.submit(world.get, f"{BASE_PATH}/openapi.json")
                assert document.result(PATIENCE_SECONDS).status_code == 200
                refused = [threads.submit(world.get, world.services_path) for _ in range(8)]
                refused.append(threads.submit(world.post, world.services_path, {"name": "another"}))
                answers = [one.result(PATIENCE_SECONDS) for one in refused]
                assert {(one.status_code, one.json()["code"]) for one in answers} == {(503, "STORE_UNAVAILABLE")}
            eventually(lambda: world.get(world.services_path).status_code == 200)  # noqa: B023
            assert [one["name"] for one in world.listed()] == ["shop"]


def test_a_transaction_that_is_under_way_when_the_store_freezes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with postgresql() as url, closing(Store.open(url)) as store:
        monkeypatch.setattr(silence, "STATEMENT_SECONDS", 2.0)
        monkeypatch.setattr(silence.BoundedConnection, "patience_seconds", 2.0)

        def write() -> None:
            with store.write() as tx, frozen(url):
                tx.execute(sa.text("SELECT 1"))

        with pytest.raises(Unavailable):
            write()
        eventually(lambda: _answers(store))


def _answers(store: Store) -> bool:
    try:
        with store.read() as tx:
            return bool(tx.scalar(sa.text("SELECT 1")) == 1)
    except Unavailable:
        return False
