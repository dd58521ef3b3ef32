"""What procedures do while a backend says that what it has begun takes longer than all attempts at a step."""

import time
from datetime import timedelta
from types import SimpleNamespace

import pytest

from ramet.backends.interface.servers import RESIZE_UNDER_WAY, SERVER_ENDING, SERVER_STOPPING
from ramet.backends.interface.values import Server
from ramet.backends.memory.backend import MemoryBackend
from ramet.backends.memory.servers import MemoryServers
from ramet.control import replica_sets as verbs
from ramet.control.duties.drills import submit_due_drill
from ramet.control.services import delete_service, get_service, resize_service, stop_service
from ramet.errors import Failed, NotFound, Unavailable
from ramet.model.service import status_of
from ramet.model.size import Size
from ramet.model.status import Status
from ramet.operations import runner
from ramet.operations.transitions import MAX_ATTEMPTS
from tests.control import replica_sets
from tests.procedures.test_laws import submit_import
from tests.worlds import World

SLOW = MAX_ATTEMPTS + 2


class SlowServers(MemoryServers):
    """Servers that take a while to get another size, which may be refused, to stop, and to go."""

    left = SLOW
    refused: Size | None = None
    slow: str | None = None

    def __init__(self, memory: MemoryBackend) -> None:
        super().__init__(memory)
        self.sizes: list[Size] = []

    def resize(self, server: Server) -> bool:
        """Replace one server after another."""
        self.sizes.append(server.size)
        if server.size == self.refused:
            raise Failed("NO_ROOM", "No node has room for it")
        if self.left:
            self.left -= 1
            raise Unavailable(RESIZE_UNDER_WAY, f"{SLOW - self.left} servers are resized")
        return True

    def stop(self, server: Server) -> None:
        """Write one page after another, if a test says so."""
        self._take_longer(server, SERVER_STOPPING)
        super().stop(server)

    def _take_longer(self, server: Server, code: str) -> None:
        if self.left and code == self.slow:
            self.left -= 1
            raise Unavailable(code, f"The server of service {server.service_id} takes longer")

    def destroy(self, service_id: str) -> None:
        """Remove one object after another."""
        if self.left and service_id in self._memory.volumes:
            self.left -= 1
            raise Unavailable(SERVER_ENDING, "It is still being removed", f"{self.left} volumes")
        super().destroy(service_id)


def test_a_resize_that_takes_longer_than_its_attempts_succeeds(world: World) -> None:
    servers = world.backend.servers = SlowServers(world.backend)
    service = world.create()
    resize_service(world.plane, world.project.id, service.id, "1000", "4")
    world.worker.run_until_idle()
    after = get_service(world.plane, world.project.id, service.id)
    assert (status_of(after), after.size, servers.left) == (Status.READY, Size(1000, 4), 0)


@pytest.mark.parametrize("code", ["NO_ROOM", "VOLUME_LOST"])
def test_what_an_undo_could_not_give_back_is_logged_unless_the_volume_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: str
) -> None:
    def resize(server: Server) -> bool:
        raise Failed(code, "It is refused")

    service = world.create()
    monkeypatch.setattr(world.backend.servers, "resize", resize)
    resize_service(world.plane, world.project.id, service.id, "1000", "4")
    world.worker.run_until_idle()
    assert get_service(world.plane, world.project.id, service.id).size == service.size
    assert ("does not get back what it had before: It is refused" in caplog.text) is (code == "NO_ROOM")


def test_a_server_that_serves_gets_its_size_back_when_a_resize_fails(world: World) -> None:
    servers = world.backend.servers = SlowServers(world.backend)
    service = world.create()
    servers.refused = Size(1000, 4)
    resize_service(world.plane, world.project.id, service.id, "1000", "4")
    world.worker.run_until_idle()
    after = get_service(world.plane, world.project.id, service.id)
    assert (status_of(after), after.size) == (Status.UNSTABLE, service.size)
    assert servers.sizes == [Size(1000, 4), service.size]
    assert servers.left == SLOW - 1  # the rest is not waited for


def test_a_server_that_takes_longer_to_stop_than_the_attempts_is_paused(world: World) -> None:
    servers = world.backend.servers = SlowServers(world.backend)
    service = world.create()
    servers.slow = SERVER_STOPPING
    stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert (status_of(get_service(world.plane, world.project.id, service.id)), servers.left) == (Status.PAUSED, 0)


def test_a_service_whose_removal_takes_longer_than_the_attempts_is_deleted(world: World) -> None:
    servers = world.backend.servers = SlowServers(world.backend)
    service = world.create()
    delete_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    with pytest.raises(NotFound):
        get_service(world.plane, world.project.id, service.id)
    assert (servers.left, world.leftovers()) == (0, [])


def test_a_replica_set_whose_removal_takes_longer_than_the_attempts_is_deleted(world: World) -> None:
    servers = world.backend.servers = SlowServers(world.backend)
    service = world.create()
    made = replica_sets.create(world, service)
    verbs.delete_set(world.plane, world.project.id, service.id, made.id)
    world.worker.run_until_idle()
    assert (replica_sets.sets_of(world, service), servers.left) == ([], 0)


def test_a_drill_whose_server_takes_longer_to_go_than_the_attempts_succeeds(world: World) -> None:
    servers = world.backend.servers = SlowServers(world.backend)
    service = world.create()
    world.backend.commit(service.id, "row")
    submit_due_drill(world.plane, timedelta(0))
    world.worker.run_until_idle()
    after = get_service(world.plane, world.project.id, service.id)
    assert (after.drill_failure, after.drilled_at is None, servers.left) == (None, False, 0)


def test_an_import_that_waits_for_hours_until_its_statistics_are_collected_succeeds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed, answers = [0.0], iter([None, None, None, "collected"])

    def analyze(server: Server, timeout_seconds: float) -> str | None:
        passed[0] += 3700
        return next(answers)

    monkeypatch.setattr(world.backend.restore, "analyze", analyze)
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: passed[0], time=time.time))
    service_id = submit_import(world, "")
    world.worker.run_until_idle()
    service = get_service(world.plane, world.project.id, service_id)
    assert (status_of(service), next(answers, "all taken")) == (Status.READY, "all taken")
