"""The world of the control tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores import postgresql_server, postgresql_url, store, url
from tests.worlds import World, make_world

__all__ = ["postgresql_server", "postgresql_url", "store", "url"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = make_world(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def archiving(world: World) -> World:
    world.backend.archive.location = "s3://bucket"
    return world
