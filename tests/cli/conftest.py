"""The world that the tests of the command line share."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.cli.world import World, open_world


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """What a command does to the log of this process ends with its test."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


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
