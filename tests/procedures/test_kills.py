"""What procedures do about a server that is killed while it starts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.base import Readiness, Server
from ramet.backends.memory import MemoryBackend
from ramet.model.service import Status, status_of
from ramet.procedures.servers import MOST_KILLS
from tests.worlds import World, make_world


class Murderous(MemoryBackend):
    """Kills servers while they start, `kills` times in all."""

    kills = 0

    def await_ready(self, server: Server, patience_seconds: float) -> Readiness:
        """Kill it first."""
        if self.kills > 0:
            self.kills -= 1
            self.crash(server.service_id)
        return super().await_ready(server, patience_seconds)


@pytest.fixture
def backend() -> Murderous:
    return Murderous()


@pytest.fixture
def world(tmp_path: Path, backend: Murderous) -> Iterator[World]:
    made = make_world(tmp_path, backend)
    yield made
    made.store.close()


def test_a_server_that_is_killed_while_it_starts_is_started_again(world: World, backend: Murderous) -> None:
    parent = world.create()
    backend.kills = MOST_KILLS
    assert status_of(world.fork(parent)) is Status.READY
    assert backend.kills == 0


@pytest.mark.parametrize("forked", [False, True], ids=["created", "forked"])
def test_one_that_is_killed_again_and_again_is_given_up(world: World, backend: Murderous, forked: bool) -> None:
    parent = world.create()
    backend.kills = 1000
    failed = world.fork(parent) if forked else world.create("new")
    assert status_of(failed) is Status.UNSTABLE
    assert f"happened {MOST_KILLS + 1} times" in (failed.failure or "")
    assert world.leftovers() == []
