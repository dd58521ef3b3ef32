"""Characters with the code zero over a store in PostgreSQL, which has none: what is named by one is not found."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from litestar.testing import TestClient

from ramet.console.application import open_console
from ramet.console.auth.cookies import SESSION
from ramet.endpoints import BASE_PATH
from ramet.ids import new_id
from ramet.model.pem import PEM_BEGIN
from tests.api.test_openapi import CHECKED_IN
from tests.api.world import JsonObject, World, open_world
from tests.applications import application
from tests.servers import database

_PATHS: JsonObject = msgspec.json.decode(CHECKED_IN.read_bytes())["paths"]
_METHODS = ("get", "put", "post", "patch", "delete")
_OPERATIONS = [(method, path) for path, item in _PATHS.items() for method in item if method in _METHODS]


@pytest.fixture(scope="module", name="world")
def _world(postgresql_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with database(postgresql_server, new_id()) as url:
        yield from open_world(tmp_path_factory.mktemp("world"), url)


@pytest.fixture(scope="module", name="shop")
def _shop(world: World) -> JsonObject:
    return world.ready()


def _parameters(method: str, path: str, place: str) -> list[str]:
    described: list[Any] = [*_PATHS[path].get("parameters", ()), *_PATHS[path][method].get("parameters", ())]
    return [one["name"] for one in described if one["in"] == place]


@pytest.mark.parametrize(("method", "path"), _OPERATIONS)
def test_in_paths_and_queries_they_are_no_fault(world: World, shop: JsonObject, method: str, path: str) -> None:
    known = {"project_id": world.tenant.project.id, "service_id": shop["service_id"]}
    names = _parameters(method, path, "path")
    paths = [
        path.format(**{name: "%00" if name == zero else known.get(name, "%00") for name in names}) for zero in names
    ]
    sound = path.format(**{name: known.get(name, "x") for name in names})
    queries = [f"{sound}?{name}=%00" for name in _parameters(method, path, "query")]
    for url in (*paths, *queries):
        answer = world.client.request(method, BASE_PATH + url, auth=world.tenant.credentials, json={})
        assert answer.status_code < 500, url


def test_in_a_certificate_they_are_refused_and_the_operations_of_the_service_can_be_listed(
    world: World, shop: JsonObject
) -> None:
    certificate = f"{PEM_BEGIN}\0"
    key = {"public_key": "p", "secret_key": "s"}
    move = {"to_url": "https://there.example", **key, "certificate_authority": certificate}
    source = {"source_url": "postgresql://app@db.example/shop", "source_password": "source"}
    imported = {"name": "shop", **source, "root_certificate": certificate}
    base = world.services_path.removesuffix("services")
    answers = [
        world.post(world.path(shop["service_id"], "moves"), move),
        world.post(f"{base}imports", imported),
        world.post(f"{base}followers", imported),
    ]
    for path in (f"{base}operations", world.path(shop["service_id"], "operations")):
        assert world.get(path).status_code == 200
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [
        (400, "INVALID_AUTHORITY"),
        (400, "INVALID_SOURCE"),
        (400, "INVALID_SOURCE"),
    ]


def test_in_the_console_they_are_unknown_keys_and_wrong_attempts_are_counted(world: World) -> None:
    console = open_console(world.plane, world.projects, b"k" * 32, lambda: {"paths": {}})
    console.context.throttle.delay_seconds = 0
    with application(world.plane, world.projects, console) as app, TestClient(app) as client:
        wrong = {"public_key": "a\0b", "secret_key": "wrong"}
        answers = [client.post("/console/sign-in", data=wrong) for _ in range(10)]
        answers += [client.post("/console/link", data=wrong) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [401] * 10 + [429] * 2
        client.cookies.set(SESSION, console.context.sessions.begin(world.tenant.key, world.clock()))
        assert client.get("/console/keys/%00").status_code == 404
        for name in ("actor", "verb", "subject", "outcome"):
            assert client.get(f"/console/audit?{name}=%00").status_code == 200
