"""There is at most one `ramet up` for a data directory, and it is identified by more than its pid."""

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import BOUND_SECONDS, eventually
from ramet.cli.host import instance
from ramet.cli.host.ending import end_all
from ramet.errors import WrongState

_HOLDER = """
import pathlib, signal, sys
from ramet.cli.host import instance
directory = pathlib.Path(sys.argv[1])
with instance.alone(directory):
    try:
        instance.announce(directory, "http://here")
        signal.pause()
    except KeyboardInterrupt:
        pass
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Another process that locks the directory exclusively, and exits in order at SIGTERM."""
    program = "import signal\nsignal.signal(signal.SIGTERM, signal.default_int_handler)\n" + _HOLDER
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    try:
        eventually(lambda: instance.running(tmp_path) is not None)
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_second_process_is_refused_with_the_pid_and_address_of_the_first(
    tmp_path: Path, holder: "subprocess.Popen[bytes]"
) -> None:
    for way_in in (instance.alone, instance.shared):
        with pytest.raises(WrongState, match=rf"pid {holder.pid}.*http://here"), way_in(tmp_path):
            pass
    instance.end(tmp_path, BOUND_SECONDS)
    holder.wait(BOUND_SECONDS)


def test_end_waits_until_the_directory_is_unlocked(tmp_path: Path, holder: "subprocess.Popen[bytes]") -> None:
    ended = instance.end(tmp_path, BOUND_SECONDS)
    assert ended is not None
    assert ended.process.pid == holder.pid
    assert instance.running(tmp_path) is None
    assert holder.wait(BOUND_SECONDS) == 0
    with instance.alone(tmp_path):
        pass


def test_a_killed_process_does_not_lock_the_directory(tmp_path: Path, holder: "subprocess.Popen[bytes]") -> None:
    holder.kill()
    holder.wait(BOUND_SECONDS)
    assert (tmp_path / "run.json").exists()
    assert instance.running(tmp_path) is None
    assert instance.end(tmp_path, 1) is None
    with instance.alone(tmp_path):
        pass


def test_another_process_with_the_recorded_pid_is_not_signalled(
    tmp_path: Path, holder: "subprocess.Popen[bytes]"
) -> None:
    record = tmp_path / "run.json"
    stranger = multiprocessing.get_context("spawn").Process(target=signal.pause, daemon=True)
    stranger.start()
    found = json.loads(record.read_text())
    found["process"]["pid"] = stranger.pid
    record.write_text(json.dumps(found))
    assert instance.end(tmp_path, 1) is None
    assert stranger.is_alive()
    stranger.kill()
    stranger.join()
    os.kill(holder.pid, signal.SIGTERM)
    holder.wait(BOUND_SECONDS)


def test_shared_locks_exclude_an_exclusive_lock(tmp_path: Path) -> None:
    with instance.shared(tmp_path), instance.shared(tmp_path), pytest.raises(WrongState), instance.alone(tmp_path):
        pass


def test_who_ends_all_beside_a_server_or_worker_is_told_to_end_these(tmp_path: Path) -> None:
    (tmp_path / "pool.json").touch()
    with instance.shared(tmp_path), pytest.raises(WrongState, match="End each 'ramet serve' and 'ramet worker' first"):
        end_all(tmp_path)


def test_who_comes_beside_a_recovery_is_told_to_wait_for_it(tmp_path: Path) -> None:
    (tmp_path / "pool.json").touch()
    told = "ramet recover, ramet down, or .*Try again when it has ended"
    with instance.alone(tmp_path):
        with pytest.raises(WrongState, match=told):
            end_all(tmp_path)
        with pytest.raises(WrongState, match=told), instance.shared(tmp_path):
            pass


def test_a_lock_that_cannot_be_opened_does_not_count_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "run.lock")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PermissionError):
        instance.is_in_use(tmp_path)


def test_processes_that_share_a_data_directory_use_it(tmp_path: Path) -> None:
    assert not instance.is_in_use(tmp_path)
    with instance.shared(tmp_path):
        assert instance.is_in_use(tmp_path)
        assert not instance.has_worker(tmp_path)
        with instance.working(tmp_path, alone=True):
            assert instance.has_worker(tmp_path)
    assert not instance.has_worker(tmp_path)


def test_there_is_one_worker_over_sqlite_and_may_be_several_over_postgresql(tmp_path: Path) -> None:
    with instance.working(tmp_path, alone=True):
        with pytest.raises(WrongState, match="Another ramet worker"), instance.working(tmp_path, alone=True):
            pass
        with instance.working(tmp_path, alone=False):
            pass


def test_a_locked_data_directory_is_refused_before_the_server_is_imported(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "ramet", "up", "--data", str(tmp_path), "--port", "0"]
    with instance.alone(tmp_path):
        done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 3
    assert "is using" in done.stderr
    assert "ramet.cli.host.instance" in done.stderr
    assert not any(name in done.stderr for name in ("ramet.app", "litestar", "sqlalchemy"))
