"""The two halves of one Ramet as processes of their own: `ramet serve` and `ramet worker`."""

import contextlib
import dataclasses
import http.client
from collections.abc import Iterator

from harness.instance import Instance


@contextlib.contextmanager
def apart(running: Instance) -> Iterator[int]:
    """Run `ramet serve` and `ramet worker` in place of `ramet up`, which runs again after it; yield the pid of HTTP."""
    running.terminate()
    worker = dataclasses.replace(running)
    try:
        running.start("serve", ready=lambda: answers(running.port))
        worker.start("worker", ready=lambda: "Ramet runs operations" in worker.log)
        if running.process is None:
            raise AssertionError("BUG: nothing serves")
        yield running.process.pid
        worker.terminate()
        running.terminate()
    finally:
        worker.kill()
        running.kill()
        running.up()


def answers(port: int) -> bool:
    """Tell whether HTTP is served at a port."""
    with contextlib.suppress(OSError), contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as probe:
        probe.connect()
        return True
    return False
