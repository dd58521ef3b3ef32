"""Many clients ask for everything at once: no answer may be a fault, nothing may be lost, doubled or left over.

At the same time clients without a key attack the server.
"""

import argparse
import contextlib
import random
import secrets
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from harness.instance import FREQUENT_SNAPSHOTS, Instance, running_instance
from harness.waiting import eventually
from prove.hostile_clients import HALF_OPEN, HostileClients
from prove.made import FAULTS

_IDLE_SECONDS = 300.0
_READ_SHARE = 0.5
_MIB = 1024**2


@dataclass
class Storm:
    """What all clients share: what they know of, and what they saw."""

    instance: Instance
    limit: int
    broken: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    accepted: dict[str, str] = field(default_factory=dict)
    doomed: set[str] = field(default_factory=set)
    seconds: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    def note(self, verb: str, answer: httpx.Response) -> None:
        """Count an answer; one of the server's own faults is kept with its words."""
        with self.lock:
            self.answers[f"{verb} {answer.status_code}"] += 1
            self.seconds.append(answer.elapsed.total_seconds())
            if answer.status_code >= 500:
                self.broken += 1
                self.faults.append(f"{verb}: {answer.status_code} {answer.text[:300]}")


def main(arguments: list[str]) -> int:
    """Run the proof; 0 when every check passed."""
    given = _parser().parse_args(arguments)
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    print(f"storm: {given.clients} clients for {given.minutes:g} minutes, seed {seed}", file=sys.stderr)
    with running_instance(given.data, **FREQUENT_SNAPSHOTS) as instance:
        storm = Storm(instance, given.services)
        hostile = HostileClients(instance.credentials["base_url"], seed, given.half_open)
        try:
            with hostile.running() if given.half_open else contextlib.nullcontext():
                _run_clients(storm, given.clients, given.minutes * 60, seed)
            storm.faults += hostile.faults + (hostile.missing() if given.half_open else [])
            storm.faults += _check_at_rest(storm)
        except KeyboardInterrupt:
            storm.faults.append("it was interrupted")
        finally:
            _report(storm)
            print(
                "hostile clients: " + ", ".join(f"{name}: {count}" for name, count in sorted(hostile.answers.items()))
            )
    return 1 if storm.faults else 0


def _check_at_rest(storm: Storm) -> list[str]:
    """Return the faults when no operation is running, and again when all services are deleted."""
    try:
        storm.instance.await_idle(_IDLE_SECONDS)
        found = [*_faults_of_services(storm), *storm.instance.leftovers()]
        _delete_all(storm)
        return found + [f"at the end: {one}" for one in storm.instance.leftovers()]
    except FAULTS as fault:
        return [f"{type(fault).__name__}: {fault}"]


def _run_clients(storm: Storm, clients: int, seconds: float, seed: int) -> None:
    """Run the clients, and record the memory of the server while they run."""
    pid = storm.instance.process.pid if storm.instance.process else 0
    threads = [threading.Thread(target=_client, args=(storm, seed + number)) for number in range(clients)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            time.sleep(min(5.0, seconds / 4))
            storm.sizes.append(psutil.Process(pid).memory_info().rss // _MIB)
    finally:
        storm.over.set()
        for thread in threads:
            thread.join(120)


def _client(storm: Storm, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a seed must give the same run again
    key = storm.instance.credentials
    base = f"{key['base_url']}/projects/{key['project_id']}"
    auth = (key["public_key"], key["secret_key"])
    try:
        with httpx.Client(base_url=base, auth=auth, timeout=120, trust_env=False) as client:
            while not storm.over.is_set():
                _act(storm, client, chance)
    except Exception as fault:  # noqa: BLE001 - the thread's edge: the proof tells of it
        storm.faults.append(f"a client ended with {type(fault).__name__}: {fault}")


def _act(storm: Storm, client: httpx.Client, chance: random.Random) -> None:
    listed = client.get("/services")
    storm.note("list", listed)
    known = [one["service_id"] for one in listed.json()] if listed.status_code == 200 else []
    chosen = chance.choice(known) if known else None
    if chosen is None or (len(known) < storm.limit and chance.random() < 0.25):
        _create_or_fork(storm, client, chance, chosen)
    elif chance.random() < _READ_SHARE:
        storm.note("get", client.get(f"/services/{chosen}"))
    elif chance.random() < 0.1:
        _disconnect_early(storm, chance)
    else:
        _change(storm, client, chance, chosen)


def _create_or_fork(storm: Storm, client: httpx.Client, chance: random.Random, parent: str | None) -> None:
    """Create or fork, at times twice with one key: that must be one service."""
    name = f"storm-{secrets.token_hex(6)}"
    verb, path, body = "create", "/services", {"name": name}
    if parent is not None and chance.random() < 0.7:
        strategy = chance.choice(["NOW", "NOW", "LAST_SNAPSHOT"])
        verb, path, body = "fork", f"/services/{parent}/forkService", {"name": name, "fork_strategy": strategy}
    for _ in range(2 if chance.random() < 0.2 else 1):
        answer = client.post(path, json=body, headers={"Idempotency-Key": name})
        storm.note(verb, answer)
        if answer.status_code == 202:
            service_id = answer.json()["service_id"]
            if storm.accepted.setdefault(name, service_id) != service_id:
                storm.faults.append(f"{name} was made twice: {storm.accepted[name]} and {service_id}")


def _change(storm: Storm, client: httpx.Client, chance: random.Random, service_id: str) -> None:
    verb = chance.choice(["stop", "start", "delete", "snapshots", "resize", "rename"])
    match verb:
        case "delete":
            storm.doomed.add(service_id)
            answer = client.delete(f"/services/{service_id}")
        case "resize":
            answer = client.post(f"/services/{service_id}/resize", json={"cpu_millis": "1000", "memory_gbs": "2"})
        case "rename":
            answer = client.post(f"/services/{service_id}/rename", json={"name": f"renamed-{service_id}"})
        case _:
            answer = client.post(f"/services/{service_id}/{verb}")
    storm.note(verb, answer)


def _disconnect_early(storm: Storm, chance: random.Random) -> None:
    """Go away in the middle of a request, or after it without hearing the answer."""
    key = storm.instance.credentials
    address = urlsplit(key["base_url"])
    head = f"GET {address.path}/projects/{key['project_id']}/services HTTP/1.1\r\nHost: x\r\n".encode()
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(head if chance.random() < 0.5 else head + b"\r\n")
        time.sleep(chance.uniform(0, 0.2))
    storm.answers["broken off"] += 1


def _faults_of_services(storm: Storm) -> list[str]:
    """Return what does not hold of the services, now that all operations are over."""
    rows = storm.instance.rows("SELECT id, name, deleted_at, failed_at, failure, paused, down_reason FROM service")
    by_id = {row[0]: row for row in rows}
    found = [f"{name} was accepted as {one} and is unknown" for name, one in storm.accepted.items() if one not in by_id]
    if len(rows) != len(storm.accepted):
        found.append(f"{len(storm.accepted)} services were accepted, and {len(rows)} are known")
    shown: dict[str, Any] = {one["service_id"]: one for one in storm.instance.call("GET", "/services").json()}
    for service_id, _name, deleted, failed, failure, paused, down in by_id.values():
        if deleted or failed:
            if not deleted and not failure and service_id not in storm.doomed:
                found.append(f"{service_id} is gone without a reason")
        elif shown.get(service_id, {}).get("status") != ("PAUSED" if paused else "READY"):
            found.append(f"{service_id} is {shown.get(service_id, {}).get('status')}: {down}")
    return found


def _delete_all(storm: Storm) -> None:
    for service in storm.instance.call("GET", "/services").json():
        storm.note("last delete", storm.instance.call("DELETE", f"/services/{service['service_id']}"))
    eventually(lambda: not storm.instance.call("GET", "/services").json(), "all are gone", 0.2, seconds=_IDLE_SECONDS)
    storm.instance.await_idle(_IDLE_SECONDS)


def _report(storm: Storm) -> None:
    ordered, sizes, faults = sorted(storm.seconds) or [0.0], storm.sizes, storm.faults
    print(f"answers: {sum(storm.answers.values())}, of them 5xx: {storm.broken}")
    print("  " + ", ".join(f"{name}: {count}" for name, count in sorted(storm.answers.items())))
    print(f"services accepted: {len(storm.accepted)}, lost or doubled: {len(_doubled(storm))}")
    half = statistics.median(ordered)
    print(f"seconds to answer: p50 {half:.3f}, p99 {ordered[int(len(ordered) * 0.99)]:.3f}, max {ordered[-1]:.3f}")
    print(f"memory of the server in MiB: {' '.join(map(str, sizes[:: max(1, len(sizes) // 20)]))}")
    print(f"faults: {len(faults)}", *faults[:50], sep="\n", flush=True)


def _doubled(storm: Storm) -> list[str]:
    ids = Counter(storm.accepted.values())
    return [one for one, count in ids.items() if count > 1]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/prove storm", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long (10)")
    parser.add_argument("--clients", type=int, default=32, help="how many at once (32)")
    parser.add_argument("--services", type=int, default=30, help="how many services there are at most, about (30)")
    parser.add_argument("--half-open", type=int, default=HALF_OPEN, help="half-open connections (500; 0: none)")
    parser.add_argument("--seed", type=int, help="the same seed makes the same choices again")
    parser.add_argument("--data", type=Path, help="where to make the data directory (the system's temporary one)")
    return parser
