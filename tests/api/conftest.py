"""The world that the tests of the interface share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.world import World, open_world
from tests.stores import postgresql_server, url

__all__ = ["postgresql_server", "url", "world"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A separate world for each test."""
    yield from open_world(tmp_path)
