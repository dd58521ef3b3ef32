"""Two upgrades of one service: the second is refused, or fails, and the service keeps what the first has made of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.memory.backend import MemoryBackend
from ramet.control.services import delete_service, list_services
from ramet.errors import WrongState
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.status import OperationStatus, Status
from ramet.store import operations
from ramet.store.tables import operation
from ramet.upgrades.verbs import Upgrade, UpgradeRequest, list_upgrades, upgrade_service
from tests.worlds import World, look, make_world

NEW = 19


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = make_world(tmp_path, MemoryBackend())
    yield made
    made.store.close()


@pytest.fixture
def shop(world: World) -> Service:
    made = world.create()
    world.backend.commit(made.id, "one")
    return made


def begin(world: World, service: Service, *, is_trial: bool = False) -> Service:
    return upgrade_service(world.plane, world.project.id, service.id, UpgradeRequest(NEW, is_trial)).service


def begin_second(world: World, service: Service) -> None:
    """Accept an upgrade beside another one, as earlier releases did."""
    fork = begin(world, service, is_trial=True)
    with world.store.write() as tx:
        (trial,) = operations.under_way_of(tx, fork.id, ProcedureName.TRY_UPGRADE)
        values = {"state": {**trial.state, "switches": True}}
        tx.execute(operation.update().where(operation.c.id == trial.id).values(values))


def upgrades(world: World, service: Service) -> list[Upgrade]:
    return list_upgrades(world.plane, world.project.id, service.id)


def test_the_second_of_two_upgrades_fails_and_the_service_stays_as_the_first_has_made_it(
    world: World, shop: Service
) -> None:
    begin(world, shop)
    begin_second(world, shop)
    world.worker.run_until_idle()
    ends = {one.status: one.error for one in upgrades(world, shop)}
    assert set(ends) == {OperationStatus.SUCCEEDED, OperationStatus.FAILED}
    assert ends[OperationStatus.FAILED] == f"Service {shop.id} runs PostgreSQL {NEW} by now"
    after = look(world, shop)
    assert (status_of(after), after.pg_major, world.backend.volume(shop.id).pg_major) == (Status.READY, NEW, NEW)
    assert world.backend.values(shop.id) == ["one"]
    assert world.leftovers() == []


def test_an_upgrade_is_refused_while_another_one_is_tried(world: World, shop: Service) -> None:
    begin(world, shop, is_trial=True)
    first = begin(world, shop)
    with pytest.raises(WrongState, match=f"The upgrade {first.id} of service {shop.id} is under way"):
        begin(world, shop)
    begin(world, shop, is_trial=True)
    delete_service(world.plane, world.project.id, first.id)
    begin(world, shop)
    world.worker.run_until_idle()
    assert look(world, shop).pg_major == NEW
    assert len(list_services(world.plane, world.project.id)) == 2
