"""The list of services, of which only what has changed is read: always what it would be if all were read."""

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

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
from ramet.model.cursor import encode_cursor
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


def test_a_page_from_which_a_service_was_deleted_is_not_taken_for_the_last(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [world.create(name=f"shop-{n}")["service_id"] for n in range(4)]
    read, listing = listed_services.list_marked, Listing(lambda service: service)

    def lose_one(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        with world.store.write() as tx:
            services.update_service(tx, ids[0], failed_at=world.plane.clock() - timedelta(hours=1))
        return [one for one in read(*args, **kwargs) if one[1].id != ids[0]]

    monkeypatch.setattr(listed_services, "list_marked", lose_one)
    found = listing.list_services(world.plane, world.tenant.project.id, None, 3)
    assert [made.id for made, _ in found] == ids[1:]


def test_what_was_read_from_another_server_of_the_store_is_read_again(
    on_both: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def make(service: Any) -> ListedService:
        made.append(service.id)
        return listed_service(service)

    listing, project_id = Listing(make), on_both.tenant.project.id
    known = on_both.ready()["service_id"]
    for _ in range(2):
        listing.list_services(on_both.plane, project_id)
    monkeypatch.setattr(listed_services, "server_of", lambda _: "one that has taken over")
    for _ in range(2):
        listing.list_services(on_both.plane, project_id)
    assert made == [known, known]


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


def pages(world: World, query: str) -> Iterator[list[str]]:
    """Yield the ids of each page, following the links."""
    while query:
        response = world.get(f"{world.services_path}?{query}")
        assert response.status_code == 200, response.text
        yield [one["service_id"] for one in response.json()]
        link = response.headers.get("link", "")
        query = link.removeprefix("<?").removesuffix('>; rel="next"')


def joined(found: Iterator[list[str]]) -> list[str]:
    return [one for page in found for one in page]


def test_pages_are_right_while_services_come_and_go(on_both: World) -> None:
    world = on_both
    known = [world.ready(name=f"shop-{n}")["service_id"] for n in range(5)]
    known.sort(key=[one["service_id"] for one in world.listed()].index)
    found = pages(world, "limit=2")
    assert next(found) == known[:2]
    for gone in known[:3]:
        assert world.delete(world.path(gone)).status_code == 202
    world.work()
    world.advance(timedelta(seconds=1))
    made = world.ready(name="new")["service_id"]
    assert list(found) == [known[3:], [made]]
    assert [len(page) for page in pages(world, "limit=3")] == [3]


def test_pages_and_their_links_keep_the_labels(world: World) -> None:
    owned = [world.create(name=f"shop-{n}", labels={"owner": "ada" if n % 2 else "bob & co"}) for n in range(6)]
    for owner, parity in (("ada", 1), ("bob & co", 0)):
        expected = {one["service_id"] for one in owned[parity::2]}
        found = list(pages(world, urlencode({"label": f"owner={owner}", "limit": 2})))
        assert [len(page) for page in found] == [2, 1]
        assert set(joined(iter(found))) == expected


def test_pages_of_a_key_that_sees_its_own_services_only_have_no_others(world: World) -> None:
    parent = world.ready()
    forker = world.forker(parent)
    forks = {forker.fork(parent)["service_id"] for _ in range(3)}
    found = list(pages(forker, "limit=2"))
    assert ([len(page) for page in found], set(joined(iter(found)))) == ([2, 1], forks)


def test_the_list_names_no_next_page_unless_it_is_asked_for_pages(world: World) -> None:
    whole = [world.create(name=f"shop-{n}")["service_id"] for n in range(2)]
    response = world.get(world.services_path)
    assert (set(joined(pages(world, "limit=1"))), "link" in response.headers) == (set(whole), False)
    rest = response.json()[1]["service_id"]
    link = world.get(f"{world.services_path}?limit=1").headers["link"]
    cursor = dict(parse_qsl(link[2 : link.index(">")]))["cursor"]
    assert joined(pages(world, urlencode({"cursor": cursor}))) == [rest]


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("limit=0", "INVALID_LIMIT", "limit must be between 1 and 500 (got 0)"),
        ("limit=501", "INVALID_LIMIT", "limit must be between 1 and 500 (got 501)"),
        ("limit=ten", "INVALID_PARAMETER", "Invalid value for limit: 'ten'"),
        ("cursor=x", "INVALID_CURSOR", "Invalid cursor 'x': use the cursor from a previous response"),
        (f"cursor={encode_cursor('2026-01-01T00:00:00+00:00 a' + chr(0))}", "INVALID_CURSOR", "Invalid cursor"),
        (f"cursor={encode_cursor('0001-01-01T00:00:00+14:00 abcdefghij')}", "INVALID_CURSOR", "Invalid cursor"),
    ],
)
def test_a_wrong_limit_or_cursor_is_refused(world: World, query: str, code: str, message: str) -> None:
    response = world.get(f"{world.services_path}?{query}")
    refused = response.json()
    assert (response.status_code, refused["code"]) == (400, code)
    assert refused["message"].startswith(message)
    assert refused["details"]
