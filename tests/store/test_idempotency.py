"""Idempotency keys as rows, and requests that are repeated while the first one is being accepted."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from harness.waiting import eventually
from ramet.control import forks, services
from ramet.control.ports import reserve_ports
from ramet.control.requests import Accepted, CreateRequest, ForkRequest
from ramet.model.fork import ForkStrategy
from ramet.store import idempotency
from ramet.store.database import Store
from ramet.store.idempotency import Remembered
from tests.api.world import World, open_world
from tests.store.values import NOW, a_project, a_service


def test_a_key_is_remembered_for_its_project_only_and_can_get_a_new_meaning(store: Store) -> None:
    with store.write() as tx:
        project, other = a_project(tx), a_project(tx)
        first, second = a_service(tx, project), a_service(tx, project, port=20001)
        assert idempotency.find(tx, project.id, "key") is None
        idempotency.insert(tx, project.id, "key", "body", first.id, NOW)
        assert idempotency.find(tx, project.id, "key") == Remembered("body", first.id)
        assert idempotency.find(tx, other.id, "key") is None
        idempotency.insert(tx, project.id, "key", "another", second.id, NOW)
        assert idempotency.find(tx, project.id, "key") == Remembered("another", second.id)


def test_old_keys_are_forgotten_a_few_at_a_time_and_the_oldest_first(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        service = a_service(tx, project)
        for age in range(4):
            idempotency.insert(tx, project.id, str(age), "body", service.id, NOW - timedelta(days=age))
        assert [idempotency.remove(tx, NOW, 2) for _ in range(3)] == [2, 1, 0]
        assert [idempotency.find(tx, project.id, str(age)) is None for age in range(4)] == [False, True, True, True]


@pytest.fixture
def world(postgresql_url: str, tmp_path: Path) -> Iterator[World]:
    yield from open_world(tmp_path, postgresql_url)


def create(world: World, _parent_id: str) -> list[Accepted]:
    return [services.create_service(world.plane, world.tenant.project.id, CreateRequest("new"), "key")]


def fork(world: World, parent_id: str) -> list[Accepted]:
    request = ForkRequest(ForkStrategy.NOW)
    return forks.fork_services(world.plane, world.tenant.project.id, parent_id, request, 2, "key")


@pytest.mark.parametrize("ask", [create, fork])
def test_a_request_that_is_repeated_while_the_first_is_being_accepted_makes_nothing_of_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch, ask: Callable[[World, str], list[Accepted]]
) -> None:
    parent_id, arrived = str(world.ready()["service_id"]), list[None]()
    waiting = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )

    def is_repeated() -> bool:
        with world.store.read() as tx:
            return len(arrived) == 2 or bool(tx.scalar(waiting))

    def held(*arguments: Any) -> list[int]:
        arrived.append(None)
        eventually(is_repeated)
        return reserve_ports(*arguments)

    monkeypatch.setattr(services, "reserve_ports", held)
    monkeypatch.setattr(forks, "reserve_ports", held)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: ask(world, parent_id), range(2))
    assert [(one.service.id, one.initial_password) for one in first] == [
        (one.service.id, one.initial_password) for one in second
    ]
    assert len(world.listed()) == 1 + len(first)
