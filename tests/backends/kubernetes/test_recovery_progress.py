"""How far a recovery job is said to be, what asking for that costs, and until when its parent is needed."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Capture, Source
from ramet.backends.kubernetes import job_logs, names, past
from ramet.backends.kubernetes.site import Forks
from tests.backends.kubernetes.past_world import FORK, FORKED, SECOND, World, past_world
from tests.backends.kubernetes.servers import SHARED

_JOB = f"{FORKED}-1-snapshot-recovery-x"


@dataclass
class _Clock:
    """Seconds that pass only while somebody sleeps."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def _recovering(world: World, phase: str = "Running") -> Capture:
    """Begin a fork whose job has not made its server yet."""
    world.archive(2)
    world.commits((700, "0/02000100", SECOND), (701, "0/02000200", 3 * SECOND))
    captured = world.backend.restore.capture(FORK, world.source(2 * SECOND))
    assert captured is not None
    world.found.remove("pods", f"{FORKED}-1")
    labels = {**names.labels_of(FORK.service_id), names.JOB_LABEL: "snapshot-recovery"}
    world.found.put("pods", {"metadata": {"name": _JOB, "labels": labels}, "status": {"phase": phase}})
    eventually(lambda: [one.status.phase for one in world.backend.place.pods.of_service(FORK.service_id)] == [phase])
    return captured


def _progress(world: World, captured: Capture) -> str:
    found = world.backend.restore.recover(FORK, captured, 0)
    assert found.facts is None
    return found.progress


def test_a_job_is_watched_for_as_long_as_the_step_may_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    captured, clock = _recovering(world), _Clock()
    monkeypatch.setattr(past, "time", clock)
    assert world.backend.restore.recover(FORK, captured, 5.0).facts is None
    assert clock.now == pytest.approx(5.0)


def test_the_progress_changes_while_a_base_backup_comes_and_while_wal_is_replayed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_logs, "_LOOK_SECONDS", 0.0)
    captured, used, said = _recovering(world), ["1000", "2000"], [["no JSON"]]
    world.found.answer = lambda pod, command, stdin: ("\n".join(said[-1]) if command == ["log"] else used[-1], "", 0)
    assert _progress(world, captured).endswith("; 2 MB are in its volume")
    used.append("3000000")
    assert _progress(world, captured).endswith("; 3000 MB are in its volume")
    for message in (
        'restored log file "000000010000000000000002" from archive',
        'restored log file "000000010000000000000003" from archive',
        "redo in progress, elapsed time: 10.00 s, current LSN: 0/3000100",
    ):
        others = [{"error_severity": "FATAL", "message": "the database system is starting up"}]
        records = [{"error_severity": "LOG", "message": message}, *others]
        said.append([*said[-1], *(json.dumps({"level": "info", "record": one}) for one in records)])
        assert _progress(world, captured).endswith(f"; PostgreSQL: {message}")
    said.append(["no JSON"])
    used.append("4000000")
    assert _progress(world, captured).endswith(f"; PostgreSQL: {message}"), "nothing moves"
    world.found.answer = lambda pod, command, stdin: ("", "no such program", 127)
    assert _progress(world, captured).endswith(f"; PostgreSQL: {message}"), "what cannot be read is no progress"


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_the_log_of_a_job_is_not_read_at_each_look(world: World, phase: str) -> None:
    captured = _recovering(world, phase)
    world.found.answer = lambda pod, command, stdin: ("1000", "", 0)
    for _ in range(3):
        _progress(world, captured)
    assert sum(path.endswith(f"{_JOB}/log") for _, path in world.found.requests) == 1


def test_a_parent_is_needed_until_the_job_is_over_unless_it_recovers_a_base_backup(world: World) -> None:
    assert _recovering(world).needs_parent
    source = replace(world.source(SECOND), snapshot_id=None, base_backup_id=world.back_up().backup_id)
    of_archive = world.backend.restore.capture(replace(FORK, service_id="forkfork34"), source)
    assert of_archive is not None
    assert not of_archive.needs_parent


@pytest.mark.parametrize("forks", [Forks.ADOPT, Forks.RECOVER])
def test_the_snapshot_of_a_parent_is_needed_until_the_volume_is_made_of_it(tmp_path: Path, forks: Forks) -> None:
    with past_world(tmp_path, forks=forks) as world:
        world.found.volumes_at_once = False
        captured = world.backend.restore.capture(FORK, replace(world.source(SECOND), target=None))
        assert captured is not None
        assert captured.needs_parent
        found = world.backend.restore.recover(FORK, captured, 0)
        assert (found.facts, found.progress) == (None, "The storage has not made the volume of the snapshot yet.")
        volume = world.found.objects["persistentvolumeclaims", f"{FORKED}-1"]
        world.found.put("persistentvolumeclaims", {**volume, "status": {"phase": "Bound"}})
        assert world.backend.restore.recover(FORK, captured, 0).facts == {}


def test_a_fork_of_now_has_a_snapshot_of_its_own(world: World) -> None:
    captured = world.backend.restore.capture(FORK, Source(SHARED, paused=True))
    assert captured is not None
    assert not captured.needs_parent
