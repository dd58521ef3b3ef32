"""What procedures do about a server that is killed before it is open."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ramet.backends.interface.values import Readiness, Server, SnapshotFacts
from ramet.backends.memory.backend import MemoryBackend
from ramet.backends.memory.restore import MemoryRestore
from ramet.backends.memory.servers import MemoryServers
from ramet.control.duties.drills import submit_due_drill
from ramet.control.services import optimize_service
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.status import OperationStatus, Status
from ramet.procedures.servers import MOST_KILLS
from ramet.store import operations
from ramet.upgrades.verbs import UpgradeRequest, upgrade_service
from tests.worlds import World, look, make_world


class KillingBackend(MemoryBackend):
    """Kills servers at one step of their start, `kills` times in all."""

    kills = 0
    call = "await_ready"

    def __init__(self) -> None:
        super().__init__()
        self.servers = KilledServers(self)
        self.restore = KilledRestore(self)

    def meet(self, server: Server, call: str) -> None:
        """Kill the server if this is the step, and a kill is left."""
        if call == self.call and self.kills > 0:
            self.kills -= 1
            self.crash(server.service_id)


class KilledServers(MemoryServers):
    """Servers that may be killed before each call."""

    def __init__(self, killer: KillingBackend) -> None:
        super().__init__(killer)
        self._killer = killer

    def await_ready(self, server: Server, timeout_seconds: float) -> Readiness:
        """Watch it, if it lives."""
        self._killer.meet(server, "await_ready")
        return super().await_ready(server, timeout_seconds)

    def secure(self, server: Server, *, is_new: bool, neutralize: bool) -> dict[str, Any]:
        """Secure it, and report what was found the first time only."""
        self._killer.meet(server, "secure")
        first = not self._killer.volume(server.service_id).secured
        facts = super().secure(server, is_new=is_new, neutralize=neutralize)
        return facts | {"rolled_back": ["transfer"] if first else []}

    def open(self, server: Server) -> None:
        """Open it, if it lives."""
        self._killer.meet(server, "open")
        super().open(server)


class KilledRestore(MemoryRestore):
    """Snapshots of servers that may be killed before."""

    def __init__(self, killer: KillingBackend) -> None:
        super().__init__(killer)
        self._killer = killer

    def analyze(self, server: Server, timeout_seconds: float) -> str | None:
        """Collect statistics, if it lives."""
        self._killer.meet(server, "analyze")
        return super().analyze(server, timeout_seconds)

    def take_snapshot(self, server: Server, snapshot_id: str, paused: bool) -> SnapshotFacts | None:
        """Copy it, if it lives."""
        self._killer.meet(server, "take_snapshot")
        return super().take_snapshot(server, snapshot_id, paused)

    def verify_data(self, server: Server, timeout_seconds: float) -> str | None:
        """Read it, if it lives."""
        self._killer.meet(server, "verify_data")
        return super().verify_data(server, timeout_seconds)


@pytest.fixture
def backend() -> KillingBackend:
    return KillingBackend()


@pytest.fixture
def world(tmp_path: Path, backend: KillingBackend) -> Iterator[World]:
    made = make_world(tmp_path, backend)
    yield made
    made.store.close()


@pytest.mark.parametrize("call", ["await_ready", "secure", "open"])
def test_a_fork_whose_server_is_killed_on_its_way_is_started_again(
    world: World, backend: KillingBackend, call: str
) -> None:
    parent = world.create()
    backend.kills, backend.call = MOST_KILLS, call
    fork = world.fork(parent)
    assert status_of(fork) is Status.READY
    assert backend.kills == 0
    assert (fork.report or {})["neutralised"]["rolled_back"] == ["transfer"]


@pytest.mark.parametrize("call", ["await_ready", "secure", "open"])
def test_a_trial_upgrade_whose_server_is_killed_on_its_way_is_kept(
    world: World, backend: KillingBackend, call: str
) -> None:
    parent = world.create()
    backend.kills, backend.call = MOST_KILLS, call
    request = UpgradeRequest(19, is_trial=True, keeps=True)
    kept = world.settle(upgrade_service(world.plane, world.project.id, parent.id, request))
    assert (status_of(kept), kept.failure) == (Status.READY, None)
    assert (kept.report or {})["upgrade"]["row_differences"] == []
    assert backend.kills == 0


@pytest.mark.parametrize("call", ["await_ready", "secure", "take_snapshot", "open"])
def test_a_new_service_whose_server_is_killed_on_its_way_is_started_again(
    world: World, backend: KillingBackend, call: str
) -> None:
    backend.kills, backend.call = MOST_KILLS, call
    assert status_of(world.create()) is Status.READY
    assert backend.kills == 0


@pytest.mark.parametrize("call", ["await_ready", "secure", "open"])
@pytest.mark.parametrize("forked", [False, True], ids=["created", "forked"])
def test_one_that_is_killed_again_and_again_is_given_up(
    world: World, backend: KillingBackend, forked: bool, call: str
) -> None:
    parent = world.create()
    backend.kills, backend.call = 1000, call
    failed = world.fork(parent) if forked else world.create("new")
    assert status_of(failed) is Status.UNSTABLE
    assert f"happened {MOST_KILLS + 1} times" in (failed.failure or "")
    assert world.leftovers() == []


def test_a_service_whose_server_is_killed_while_it_is_optimized_is_started_again(
    world: World, backend: KillingBackend
) -> None:
    shop = world.create()
    backend.kills, backend.call = MOST_KILLS, "analyze"
    optimize_service(world.plane, world.project.id, shop.id)
    world.worker.run_until_idle()
    assert (status_of(look(world, shop)), backend.kills) == (Status.READY, 0)
    assert backend.volumes[shop.id].is_open
    (optimized,) = operations_of(world, shop, ProcedureName.OPTIMIZE)
    assert (optimized.status, optimized.state["statistics"]) == (OperationStatus.SUCCEEDED, "collected")


def operations_of(world: World, service: Service, procedure: ProcedureName) -> list[operations.Operation]:
    with world.store.read() as tx:
        return [one for one in operations.of_subject(tx, service.id) if one.procedure == procedure]


def test_a_drill_whose_server_is_killed_on_its_way_finds_no_damage(world: World, backend: KillingBackend) -> None:
    service = world.create()
    backend.kills, backend.call = MOST_KILLS, "verify_data"
    submit_due_drill(world.plane, timedelta(0))
    world.worker.run_until_idle()
    drilled = look(world, service)
    assert (drilled.drill_failure, backend.kills) == (None, 0)
    assert drilled.last_verified_at is not None
    assert world.leftovers() == []
