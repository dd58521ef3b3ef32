"""A world with a service whose data can be restored."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.memory.backend import MemoryBackend
from ramet.model.service import Service
from tests.worlds import World, make_world


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
