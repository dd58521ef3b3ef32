"""How the volume of a stopped server is read for its archive."""

from datetime import datetime

from tests.backends.kubernetes.past_world import World
from tests.backends.kubernetes.servers import SHARED


def _archived_until(world: World) -> datetime | None:
    return world.backend.archive.maintain(SHARED, paused=True, timeout_seconds=1).archived_until


def test_a_pod_in_which_nothing_can_be_run_yet_says_nothing_of_the_archive(world: World) -> None:
    world.back_up()
    world.archive(2)
    world.backend.servers.stop(SHARED)
    world.found.refused_runs = ["container not found (postgres)"]
    assert _archived_until(world) is None
    assert not world.found.refused_runs
    assert _archived_until(world) is not None
