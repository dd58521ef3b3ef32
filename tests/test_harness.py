"""What the harness leaves behind when something fails: no process."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from harness import halves
from harness import instance as harness
from harness.instance import Instance
from harness.waiting import eventually

# A program with the commands of Ramet that serves nothing; it leaves its pid. The worker is never ready.
_PROGRAM = """
import os, pathlib, signal, socket, sys
command, data = sys.argv[1], pathlib.Path(sys.argv[3])
if command == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if command == "serve":
    server = socket.create_server(("127.0.0.1", int(os.environ["RAMET_PORT"])))
(data.parent / command).write_text(str(os.getpid()))
if command == "up":
    (data.parent / "credentials.json").touch()
while True:
    signal.pause()
"""


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return Instance(tmp_path, program=(sys.executable, "-c", _PROGRAM))


def pid_of(instance: Instance, command: str) -> int:
    file = instance.root / command
    eventually(lambda: file.exists() and file.read_text() != "")
    return int(file.read_text())


def test_a_process_that_does_not_end_in_time_can_still_be_killed(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.start("stubborn", ready=(instance.root / "stubborn").exists)
    monkeypatch.setattr(harness, "_SECONDS", 0.01)
    process = instance.process
    assert process is not None
    with pytest.raises(subprocess.TimeoutExpired):
        instance.terminate()
    instance.kill()
    is_killed = process.returncode is not None
    process.kill()
    process.wait()
    assert is_killed


def test_a_worker_that_is_never_ready_is_killed_and_the_whole_runs_again(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(seen: Callable[[], bool], what: str, pause_seconds: float) -> None:
        if what == "ramet worker":
            pid_of(instance, "worker")
            raise TimeoutError(what)
        eventually(seen, what, pause_seconds)

    instance.up()
    monkeypatch.setattr(harness, "eventually", impatient)
    try:
        with pytest.raises(TimeoutError), halves.apart(instance):
            pass
        assert not psutil.pid_exists(pid_of(instance, "worker"))
        assert not psutil.pid_exists(pid_of(instance, "serve"))
        assert psutil.pid_exists(pid_of(instance, "up"))
    finally:
        instance.kill()


def test_a_service_that_cannot_be_destroyed_keeps_no_other_running(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def destroy(service_id: str) -> None:
        done.append(service_id)
        raise OSError("Input/output error")

    done: list[str] = []
    services = instance.data / "services"
    for name in ("one", "two"):
        (services / name).mkdir(parents=True)
    backend: Any = SimpleNamespace(
        instances=SimpleNamespace(layout=SimpleNamespace(services=services)),
        servers=SimpleNamespace(destroy=destroy),
        host=SimpleNamespace(stop_all=lambda: done.append("all")),
    )
    instance._backend = backend
    monkeypatch.setattr(harness, "has_storage", lambda _: True)
    with pytest.raises(OSError, match="Input/output error"):
        instance.remove()
    assert sorted(done[:2]) == ["one", "two"]
    assert done[2:] == ["all"]
    assert instance.root.exists()  # what shows why
