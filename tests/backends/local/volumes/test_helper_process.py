"""Functions that run in another process."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from harness.waiting import BOUND_SECONDS, eventually
from ramet.backends.local.volumes import copy, helper_process
from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.volumes.driver import NOTHING
from ramet.backends.local.volumes.packed import PackingDriver, unpack_tree
from ramet.errors import Exhausted, Unseen


def test_the_result_comes_from_another_process() -> None:
    assert helper_process.call(os.getpid) != os.getpid()


def test_errors_arrive_as_they_were_raised(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        helper_process.call(os.stat, "/nowhere")
    with pytest.raises(Exhausted) as caught:
        helper_process.call(copy.ensure_room, 10**18, tmp_path)
    assert caught.value.code == "NOT_ENOUGH_DISK"
    assert "1,000,000,000,000,000,000 bytes" in caught.value.message


def unknown_there() -> None:
    """Stand in a module that only tests can import."""


def test_a_call_that_cannot_be_unpickled_returns_an_error() -> None:
    with pytest.raises(ModuleNotFoundError):
        helper_process.call(unknown_there)


def test_output_of_a_function_is_not_taken_for_its_result() -> None:
    assert helper_process.call(print, "out of turn") is None
    assert helper_process.call(abs, -7) == 7


def test_a_helper_process_that_dies_is_reported_and_replaced() -> None:
    with pytest.raises(Unseen, match="has terminated"):
        helper_process.call(os._exit, 1)
    assert helper_process.call(abs, -7) == 7


def test_calls_at_once_do_not_mix(tmp_path: Path) -> None:
    found: dict[int, int] = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: helper_process.call(abs, -n)})) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == {n: n for n in range(20)}


def test_copies_leave_a_turn_for_what_is_short(tmp_path: Path) -> None:
    pipes = [tmp_path / str(number) for number in range((os.cpu_count() or 1) + 1)]
    for pipe in pipes:
        os.mkfifo(pipe)
    copies = [threading.Thread(target=helper_process.call_to_copy, args=(Path.read_bytes, pipe)) for pipe in pipes]
    short = threading.Thread(target=helper_process.call, args=(abs, -7))
    writers: dict[Path, int] = {}

    def count_running() -> int:
        """Return how many copies have begun: each reads a pipe, and waits for the end of what is written there."""
        for pipe in set(pipes) - set(writers):
            with contextlib.suppress(OSError):  # nobody reads it yet
                writers[pipe] = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        return len(writers)

    for thread in copies:
        thread.start()
    eventually(lambda: count_running() == len(pipes) - 1)
    short.start()
    short.join(BOUND_SECONDS)
    is_done = not short.is_alive()
    os.close(next(iter(writers.values())))
    eventually(lambda: count_running() == len(pipes))
    for writer in list(writers.values())[1:]:
        os.close(writer)
    for thread in (*copies, short):
        thread.join(BOUND_SECONDS)
    assert is_done


class NoTurn:
    """Stands for the turns of copies, to show what takes one."""

    def __enter__(self) -> None:
        raise InterruptedError("a copy")

    def __exit__(self, *_: object) -> None:
        raise AssertionError("never entered")


@pytest.mark.parametrize(
    "make",
    [
        lambda source, target: CopyDriver().clone_tree(source, target),
        lambda source, target: PackingDriver(None).clone_tree(source, target),
        lambda source, target: unpack_tree(source, target, NOTHING, 0),
    ],
)
def test_whatever_copies_a_tree_takes_a_turn_of_copies_and_what_removes_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path, Path], object]
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    monkeypatch.setattr(helper_process, "_turns_of_copies", NoTurn())
    with pytest.raises(InterruptedError, match="a copy"):
        make(source, tmp_path / "target")
    CopyDriver().remove_tree(source)
    assert not source.exists()


def test_the_helper_process_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import time; from ramet.backends.local.volumes import helper_process; helper_process.call(time.sleep, 60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    eventually(lambda: psutil.Process(parent.pid).children() != [])
    children = psutil.Process(parent.pid).children()
    time.sleep(0.5)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert children
    assert psutil.wait_procs(children, timeout=BOUND_SECONDS)[1] == []
