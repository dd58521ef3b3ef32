"""An optimization of a service whose server is down when it begins."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.memory.backend import MemoryBackend
from ramet.backends.memory.servers import MemoryServers
from ramet.control.poolers import enable_pooler
from ramet.control.services import optimize_service
from ramet.errors import Failed, Unavailable
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.procedures.servers import server_of
from tests.worlds import Hurried, World, look, make_world


class RefusingServers(MemoryServers):
    """Servers that refuse to be opened once, if a test says so."""

    refusal: Exception | None = None

    def open(self, server: Server) -> None:
        """Open a server, or raise the refusal."""
        refusal, self.refusal = self.refusal, None
        if refusal is not None:
            raise refusal
        super().open(server)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    backend = MemoryBackend(starts_after=2)
    backend.servers = RefusingServers(backend)
    made = make_world(tmp_path, backend, Hurried)
    yield made
    made.store.close()


def optimize_while_down(world: World, refusal: Exception | None = None) -> Service:
    """Optimize a service that has a pooler, and whose server is down; return it as it is afterwards."""
    service = world.create()
    enable_pooler(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    servers = world.backend.servers
    assert isinstance(servers, RefusingServers)
    servers.stop(server_of(look(world, service)))
    servers.refusal = refusal
    optimize_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    return look(world, service)


@pytest.mark.parametrize("refusal", [None, Unavailable("SERVER_UNREACHABLE", "It was killed")])
def test_a_server_that_was_down_is_opened_with_its_pooler(world: World, refusal: Exception | None) -> None:
    optimized = optimize_while_down(world, refusal)
    assert status_of(optimized) is Status.READY
    assert optimized.pooler_port is not None
    assert world.backend.volumes[optimized.id].pooler_port == optimized.pooler_port


def test_a_service_whose_server_cannot_be_opened_is_down(world: World) -> None:
    failed = optimize_while_down(world, Failed("ENDPOINT_NOT_SWITCHED", "Its endpoint is still another one's"))
    assert failed.down_reason == "Its endpoint is still another one's"
    assert status_of(failed) is not Status.READY
