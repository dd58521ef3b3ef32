"""Several worker processes on one store: each step takes effect once, whichever process is killed or stopped."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.waiting import BOUND_SECONDS
from ramet.model.status import OperationStatus
from ramet.store.database import Store
from ramet.store.operations import submit
from tests.operations.effects import found, written
from tests.operations.worker_process import STEPS

pytestmark = [pytest.mark.crash, pytest.mark.slow]
Starter = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    made = tmp_path / "marks"
    made.touch()
    return made


@pytest.fixture
def start(url: str, store: Store, marks: Path) -> Iterator[Starter]:
    """Start worker processes; they are killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def starter(lease_seconds: float = 1.0, hold_at: str | None = None) -> "subprocess.Popen[str]":
        module = [sys.executable, "-m", "tests.operations.worker_process", url, str(marks), str(lease_seconds)]
        process = subprocess.Popen(
            [*module, *([hold_at] if hold_at else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        started.append(process)
        await_line(process, "started")
        return process

    yield starter
    for process in started:
        process.kill()
        process.communicate()


def await_line(process: "subprocess.Popen[str]", wanted: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().strip() == wanted


def submitted(store: Store, count: int = 1) -> list[str]:
    with store.write() as tx:
        return [submit(tx, "process", STEPS[0], "subject", {}) for _ in range(count)]


def await_success(store: Store, ids: list[str]) -> None:
    deadline = time.monotonic() + BOUND_SECONDS
    for operation_id in ids:
        while found(store, operation_id).status is not OperationStatus.SUCCEEDED:
            assert time.monotonic() < deadline, found(store, operation_id)
            time.sleep(0.01)


def test_every_step_has_its_effect_once(store: Store, start: Starter, marks: Path) -> None:
    for _ in range(4):
        start(lease_seconds=30)
    ids = submitted(store, 200)
    await_success(store, ids)
    assert {tuple(written(store, operation_id)) for operation_id in ids} == {STEPS}
    runs = [line.split() for line in marks.read_text().splitlines()]
    assert len(runs) == len(ids) * len(STEPS)
    assert len({pid for pid, _operation, _step in runs}) > 1


def test_the_operation_of_a_killed_worker_is_taken_over(store: Store, start: Starter, marks: Path) -> None:
    doomed = start(hold_at="step2")
    ids = submitted(store)
    await_line(doomed, "holding")
    doomed.kill()
    doomed.wait()
    start()
    await_success(store, ids)
    assert tuple(written(store, ids[0])) == STEPS
    assert marks.read_text().count("step2") == 2


def test_a_worker_stopped_past_its_lease_changes_nothing_afterwards(store: Store, start: Starter, marks: Path) -> None:
    sleeper = start(hold_at="step2")
    ids = submitted(store)
    await_line(sleeper, "holding")
    os.kill(sleeper.pid, signal.SIGSTOP)
    start()
    await_success(store, ids)
    before = found(store, ids[0])
    os.kill(sleeper.pid, signal.SIGCONT)
    assert sleeper.stdin is not None
    sleeper.stdin.write("continue\n")
    sleeper.stdin.flush()
    assert sleeper.stderr is not None
    assert "another worker has taken over, nothing is recorded" in sleeper.stderr.readline()
    assert found(store, ids[0]) == before
    assert tuple(written(store, ids[0])) == STEPS


def test_workers_killed_at_random_lose_nothing_and_double_nothing(store: Store, start: Starter) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    dice = random.Random(seed)
    ids = submitted(store, 40)
    for _ in range(6):
        worker = start(lease_seconds=0.3)
        time.sleep(dice.uniform(0, 0.2))
        worker.kill()
        worker.wait()
    start(lease_seconds=0.3)
    await_success(store, ids)
    assert {tuple(written(store, operation_id)) for operation_id in ids} == {STEPS}
