"""The list of services, of which only what has changed is read: always what it would be if all were read."""

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from ramet.api.listed import ListedService, encoded_list, listed_service
from ramet.api.shapes import service_shape
from ramet.control import services as verbs
from ramet.control.listing import Listing
from ramet.control.metrics import usages_now
from ramet.control.plane import Plane
from ramet.ids import new_id
from ramet.model.metrics import Usage
from ramet.model.rights import Role
from ramet.store import listed_services, metrics, operations, services
from ramet.store.tables import operation
from tests.api.world import World, open_world

STEPS = 250
SERVICES = 3
Change = Callable[[World, sa.Connection, str, random.Random], object]


@pytest.fixture
def on_both(tmp_path: Path, url: str) -> Iterator[World]:
    """A world on each kind of store."""
    yield from open_world(tmp_path, url)


def column(name: str, *values: Any) -> Change:
    def change(_: World, tx: sa.Connection, service_id: str, chance: random.Random) -> None:
        services.update_service(tx, service_id, **{name: chance.choice(values)})

    return change


def claim(world: World, tx: sa.Connection, service_id: str, chance: random.Random) -> None:
    procedure = chance.choice(["create", "stop", "start", "resize", "delete"])
    claimed = operations.submit(tx, procedure, "step", service_id, {})
    services.update_service(tx, service_id, operation_id=claimed)


def progress(world: World, tx: sa.Connection, service_id: str, chance: random.Random) -> None:
    columns = {"started": chance.random() < 0.5, "error": chance.choice([None, "No room."])}
    columns["status"] = chance.choice(["RUNNING", "UNDOING"])
    tx.execute(operation.update().where(operation.c.subject == service_id).values(**columns))


def use(world: World, tx: sa.Connection, service_id: str, chance: random.Random) -> None:
    figures = [chance.choice([None, 1, 2]) for _ in range(3)]
    at = world.clock() - timedelta(minutes=chance.choice([0, 5]))
    metrics.put_usage(tx, {service_id: Usage(*figures)}, at)


def occupy(world: World, tx: sa.Connection, service_id: str, chance: random.Random) -> None:
    metrics.put_own_space(tx, {service_id: chance.choice([None, 5_000_000, 16_000_000])}, world.clock())


def restore_and_forget(world: World, tx: sa.Connection, service_id: str, chance: random.Random) -> None:
    """Change a row, and change it back in the next transaction."""
    services.update_service(tx, service_id, name="between")


CHANGES: list[Change] = [
    column("name", "a", 'b"\\', "ü\U0001f331", ""),
    column("paused", True, False),
    column("asleep", True, False),
    column("down_reason", None, "It crashed.", ""),
    column("failed_at", None),
    column("failure", None, "null"),
    column("storage_warning", None, "Full."),
    column("pooler_port", None, 7),
    column("labels", None, {}, {"a": "1"}, {"a": "1", "b": "2"}),
    column("protected", True, False),
    column("settings", {}, {"wal_level": "logical"}),
    column("sleep_after_seconds", None, 60),
    column("unclaimed", True, False),
    column("operation_id", None),
    claim,
    *[progress] * 8,
    *[use] * 3,
    occupy,
    restore_and_forget,
]


def uncached(plane: Plane, project_id: str) -> bytes:
    usages = usages_now(plane, project_id)
    found = verbs.list_services(plane, project_id)
    return msgspec.json.encode([service_shape(one, None, usages.get(one.id)) for one in found])


@pytest.mark.parametrize("seed", range(2))
def test_the_list_is_what_it_would_be_if_all_were_read(on_both: World, seed: int) -> None:
    chance, world = random.Random(seed), on_both
    known = [world.create(name=f"shop-{n}")["service_id"] for n in range(SERVICES)]
    world.work()
    for _ in range(STEPS):
        for _ in range(chance.randrange(3)):
            with world.store.write() as tx:
                chance.choice(CHANGES)(world, tx, chance.choice(known), chance)
        if chance.random() < 0.02:
            known.append(world.create(name="more")["service_id"])
        if chance.random() < 0.1:
            world.advance(timedelta(seconds=chance.choice([1, 20, 200])))
        assert world.get(world.services_path).content == uncached(world.plane, world.tenant.project.id)


def test_services_that_have_not_changed_are_not_read(world: World) -> None:
    made: list[str] = []

    def make(service: Any) -> ListedService:
        made.append(service.id)
        return listed_service(service)

    listing, project_id = Listing(make), world.tenant.project.id
    one, other = (world.ready(name=name)["service_id"] for name in ("one", "other"))
    listing.list_services(world.plane, project_id)
    assert made == [one, other]
    listing.list_services(world.plane, project_id)
    world.post(world.path(other, "rename"), {"name": "new"})
    listing.list_services(world.plane, project_id)
    assert made == [one, other, other]


def test_no_more_is_kept_than_allowed_and_the_list_is_whole_all_the_same(world: World) -> None:
    listing, project_id = Listing(listed_service, most=2), world.tenant.project.id
    known = [world.create(name=f"shop-{n}")["service_id"] for n in range(4)]
    for _ in range(3):
        listed = listing.list_services(world.plane, project_id)
        assert [service["service_id"] for service in msgspec.json.decode(encoded_list(listed))] == known
        assert len(listing._kept) == 2


def test_read_replica_sets_are_shown_as_they_are_now(world: World) -> None:
    ready = world.ready(cpu_millis="1000", memory_gbs="4")
    body = {"name": "reader", "nodes": 1, "cpu_millis": 500, "memory_gbs": 2}
    world.post(world.path(ready["service_id"], "replicaSets"), body)
    creating = world.listed()[0]["read_replica_sets"][0]["status"]
    world.work()
    active = world.listed()[0]["read_replica_sets"][0]["status"]
    assert (creating, active) == ("creating", "active")


def test_a_key_that_sees_its_own_services_only_is_not_shown_what_is_kept_for_others(world: World) -> None:
    parent = world.ready()
    world.listed()
    forker = world.forker(parent)
    assert forker.listed() == []
    fork = forker.fork(parent)
    assert [one["service_id"] for one in forker.listed()] == [fork["service_id"]]
    assert forker.tenant.key.role is Role.FORKER


def test_a_service_of_another_project_is_not_listed(world: World) -> None:
    world.ready()
    world.listed()
    with world.store.read() as tx:
        assert listed_services.list_marks(tx, new_id(), world.clock(), world.clock()) == []
