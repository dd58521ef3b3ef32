"""Many forks of one parent at once: each holds its rows, and when all are gone, so is all that they took."""

import argparse
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from harness.instance import FREQUENT_SNAPSHOTS, Instance, connect, running_instance
from harness.waiting import eventually
from prove.journal import rows_of
from prove.made import FAULTS, Made

_READY_SECONDS = 900.0
_ASKED_AT_ONCE = 8
_ROWS = 100_000
_MIB = 1024**2
_KEPT_MIB = 64


@dataclass
class Crowd:
    """A parent, its forks, and what was seen of them."""

    instance: Instance
    parent: Made
    empty_bytes: int
    forks: list[Made] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def main(arguments: list[str]) -> int:
    """Run the proof; 0 when every fork was right and nothing stayed."""
    given = _parser().parse_args(arguments)
    with running_instance(given.data, **FREQUENT_SNAPSHOTS) as instance:
        empty_bytes = _used_bytes(instance)
        crowd = Crowd(instance, _parent(instance), empty_bytes)
        try:
            _fork_all(crowd, given.forks)
            _delete_forks(crowd)
        except (*FAULTS, KeyboardInterrupt) as fault:
            crowd.faults.append(f"{type(fault).__name__}: {fault}")
        finally:
            _report(crowd)
    return 1 if crowd.faults else 0


def _parent(instance: Instance) -> Made:
    answer = instance.ask("POST", "/services", {"name": "parent"})
    parent = Made(answer["service_id"], answer["endpoint"]["port"], answer["initial_password"])
    _await(instance, 1, 120)
    with connect(parent.port, parent.password) as connection:
        connection.execute("CREATE TABLE ledger (n bigint)")
        connection.execute("INSERT INTO ledger SELECT generate_series(1, %s)", (_ROWS,))
    instance.await_idle()
    return parent


def _fork_all(crowd: Crowd, count: int) -> None:
    """Make the forks, look into each, and weigh them."""
    used, begun = _used_bytes(crowd.instance), time.monotonic()
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as askers:
        crowd.forks += askers.map(lambda _: _fork(crowd), range(count))
    crowd.figures["seconds until all were accepted"] = f"{time.monotonic() - begun:.1f}"
    _await(crowd.instance, count + 1, _READY_SECONDS)
    crowd.figures["seconds until all were READY"] = f"{time.monotonic() - begun:.1f}"
    crowd.instance.await_idle()
    wanted = list(range(1, _ROWS + 1))
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as readers:
        right = list(readers.map(lambda made: rows_of(made.port, made.password) == wanted, crowd.forks))
    crowd.figures["forks with exactly the parent's rows"] = f"{sum(right)} of {count}"
    wrong = [made.service_id for made, ok in zip(crowd.forks, right, strict=True) if not ok]
    crowd.faults += [f"{service_id} holds other rows" for service_id in wrong]
    crowd.figures["memory (PSS) of a fork in MiB"] = _spread(_pss_bytes(crowd))
    taken_mib = (_used_bytes(crowd.instance) - used) / _MIB
    crowd.figures["space of all forks in MiB"] = f"{taken_mib:.0f}, {taken_mib / count:.1f} each"
    crowd.faults += crowd.instance.leftovers()


def _delete_forks(crowd: Crowd) -> None:
    """Delete the forks, look at the parent, delete it too, and wait for all space."""
    begun = time.monotonic()
    _delete(crowd.instance, crowd.forks, left=1)
    crowd.figures["seconds until all were gone"] = f"{time.monotonic() - begun:.1f}"
    if rows_of(crowd.parent.port, crowd.parent.password) != list(range(1, _ROWS + 1)):
        crowd.faults.append("the parent's rows have changed")
    _delete(crowd.instance, [crowd.parent], left=0)

    def kept_mib() -> float:
        return (_used_bytes(crowd.instance) - crowd.empty_bytes) / _MIB

    eventually(lambda: kept_mib() < _KEPT_MIB, lambda: f"the space: {kept_mib():.0f} MiB stay", 0.2)
    crowd.figures["space that stayed taken in MiB"] = f"{kept_mib():.0f}"
    crowd.faults += [f"at the end: {one}" for one in crowd.instance.leftovers()]


def _delete(instance: Instance, doomed: Sequence[Made], left: int) -> None:
    for made in doomed:
        instance.ask("DELETE", f"/services/{made.service_id}")
    eventually(lambda: len(instance.ask("GET", "/services")) == left, "all are gone", 0.2, seconds=_READY_SECONDS)
    instance.await_idle()


def _fork(crowd: Crowd) -> Made:
    answer = crowd.instance.ask("POST", f"/services/{crowd.parent.service_id}/forkService", {"fork_strategy": "NOW"})
    return Made(answer["service_id"], answer["endpoint"]["port"], answer["initial_password"], "NOW")


def _await(instance: Instance, count: int, seconds: float) -> None:
    """Wait until so many services are READY; one that failed ends the wait at once."""

    def statuses() -> list[str]:
        return [one["status"] for one in instance.ask("GET", "/services")]

    def are_ready() -> bool:
        failed = instance.rows("SELECT failure FROM service WHERE failed_at IS NOT NULL")
        if failed:
            raise AssertionError(f"{len(failed)} failed, one with: {failed[0][0]}")
        return statuses().count("READY") == count

    eventually(are_ready, lambda: f"{count} READY: {statuses().count('READY')}", 0.2, seconds=seconds)


def _used_bytes(instance: Instance) -> int:
    pool = instance.backend.pool
    return pool.total_bytes() - psutil.disk_usage(str(pool.path)).free


def _pss_bytes(crowd: Crowd) -> list[int]:
    """Return the memory of each fork's processes, what they share with others by parts."""
    services = crowd.instance.backend.instances.layout.services
    weights = {made.service_id: 0 for made in crowd.forks}
    for process in psutil.process_iter(["cwd"]):
        where = Path(process.info["cwd"] or "/")
        if where.is_relative_to(services) and where != services:
            service_id = where.relative_to(services).parts[0]
            if service_id in weights:
                weights[service_id] += process.memory_full_info().pss
    return list(weights.values())


def _spread(values: list[int]) -> str:
    mibs = sorted(value / _MIB for value in values)
    return f"median {statistics.median(mibs):.1f}, most {mibs[-1]:.1f}, in all {sum(mibs):.0f}"


def _report(crowd: Crowd) -> None:
    print(f"forks: {len(crowd.forks)}", *(f"{name}: {value}" for name, value in crowd.figures.items()), sep="\n")
    print(f"faults: {len(crowd.faults)}", *crowd.faults[:50], sep="\n", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/prove crowd", description=__doc__)
    parser.add_argument("--forks", type=int, default=200, help="how many (200)")
    parser.add_argument("--data", type=Path, help="where to make the data directory (the system's temporary one)")
    return parser
