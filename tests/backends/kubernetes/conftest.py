"""Fixtures for the tests of this backend."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.kubernetes.past_world import World, past_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with past_world(tmp_path) as made:
        yield made
