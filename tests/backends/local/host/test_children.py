"""No child of this process stays a zombie, whoever ended it."""

import os
import shutil
import signal
from pathlib import Path

from harness.waiting import eventually
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
