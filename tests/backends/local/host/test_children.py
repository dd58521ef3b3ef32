"""No child of this process stays a zombie, whoever ended it."""

import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.backends.local.host import children
from ramet.backends.local.process.identity import find_server
from ramet.backends.local.server.instances import Instances
from tests.backends.local.hosts import boot, new_server


def test_a_server_that_another_process_ends_and_forgets_is_reaped(instances: Instances) -> None:
    server = new_server(instances)
    boot(instances, server)
    paths = instances.paths(server.service_id)
    pid = find_server(paths)
    assert pid is not None
    paths.process_record.unlink()  # as the other process does when it removes the service
    os.kill(pid, signal.SIGQUIT)
    eventually(lambda: not Path(f"/proc/{pid}").exists())
    instances.remove(server.service_id, 10)
    shutil.rmtree(paths.root, ignore_errors=True)


def test_children_are_reaped_though_no_thread_could_be_started_for_the_first_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children, "_children", children._Children())

    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    first, second = (subprocess.Popen(["true"]) for _ in range(2))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            children.adopt(first)
    children.adopt(second)
    eventually(lambda: not any(Path(f"/proc/{child.pid}").exists() for child in (first, second)))
