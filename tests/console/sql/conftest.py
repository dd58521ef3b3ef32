"""The console over one server for one module's tests, which makes the server and says what is in it."""

from collections.abc import Iterator

import pytest

from tests.api.world import JsonObject, World, open_world
from tests.console.sql.world import Server, SqlWorld, open_sql_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from open_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def sql(world: World, server: Server) -> Iterator[SqlWorld]:
    yield from open_sql_world(world, server)


@pytest.fixture(scope="module")
def shop(world: World) -> JsonObject:
    return world.ready()
