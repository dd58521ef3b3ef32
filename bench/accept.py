"""How fast a fork is accepted while ten others are being made: part of `batch`."""

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from bench.api import Timed
from bench.instance import Instance
from harness.halves import apart

_BUSY = 10
_EVERY_SECONDS = 0.1
# The groups in which a unit with CPUWeight=1000 has its processes, and what each version calls that.
_GROUPS = {
    Path("/sys/fs/cgroup/cpu/ramet-bench"): ("cpu.shares", "10240"),
    Path("/sys/fs/cgroup/ramet-bench"): ("cpu.weight", "1000"),
}


@contextlib.contextmanager
def preferred(running: Instance) -> Iterator[None]:
    """Run HTTP and operations in processes of their own, HTTP with the CPU weight that its unit of systemd has."""
    with apart(running) as http, _weighted(http):
        yield


@contextlib.contextmanager
def _weighted(pid: int) -> Iterator[None]:
    """Give a process ten times the weight of all others together where the CPU is short."""
    group, (name, weight) = next(each for each in _GROUPS.items() if each[0].parent.joinpath("cgroup.procs").exists())
    group.mkdir()
    try:
        (group / name).write_text(weight)
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def accepted_while_busy(running: Instance, parent: Timed, wanted: int) -> list[float]:
    """Ask for so many forks in turn while ten are under way all the time; return the milliseconds of each."""
    ended, taken = Event(), list[float]()

    def keep_one() -> None:
        api = running.api()
        while not ended.is_set():
            api.delete(api.fork(parent.service_id, "NOW").service_id)

    with ThreadPoolExecutor(_BUSY) as clients:
        busy = [clients.submit(keep_one) for _ in range(_BUSY)]
        try:
            api = running.api()
            time.sleep(1)
            for _ in range(wanted):
                begun = time.perf_counter()
                fork = api.ask_fork(parent.service_id)
                taken.append(1000 * (time.perf_counter() - begun))
                api.call("DELETE", f"/{fork['service_id']}")
                time.sleep(_EVERY_SECONDS)
        finally:
            ended.set()
        for client in busy:
            client.result()
    return taken
