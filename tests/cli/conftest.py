"""The world that the tests of the command line share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.cli.world import World, open_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A running server for one module's tests."""
    with open_world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture
def terminal(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Terminal:
    """A user whose variables lead to the world."""
    return Terminal(tmp_path, monkeypatch, capsys, world.environ())


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """A user who knows of no server."""
    return Terminal(tmp_path, monkeypatch, capsys, {})
