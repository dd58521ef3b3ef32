"""A world whose worker waits for nothing, for tests that have none of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.memory.backend import MemoryBackend
from tests.worlds import Hurried, World, make_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = make_world(tmp_path, MemoryBackend(), Hurried)
    yield made
    made.store.close()
