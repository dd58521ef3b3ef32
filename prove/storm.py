"""Many clients ask for everything at once: no answer may be a fault, nothing may be lost, doubled or left over.

Strangers without a key besiege the server meanwhile.
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
from prove.made import FAULTS
from prove.siege import HALF_OPEN, Siege

_IDLE_SECONDS = 300.0
_READ_SHARE = 0.5
_MIB = 1024**2


@dataclass
class Sky:
    """What all clients share: what they know of, and what they saw."""

    instance: Instance
    limit: int
    broken: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
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
    """Let it storm; 0 when all held."""
    given = _parser().parse_args(arguments)
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    print(f"storm: {given.clients} clients for {given.minutes:g} minutes, seed {seed}", file=sys.stderr)
    with running_instance(given.data, **FREQUENT_SNAPSHOTS) as instance:
        sky = Sky(instance, given.services)
        siege = Siege(instance.credentials["base_url"], seed, given.half_open)
        try:
            with siege.laid() if given.half_open else contextlib.nullcontext():
                _blow(sky, given.clients, given.minutes * 60, seed)
            sky.faults += siege.faults + (siege.missing() if given.half_open else [])
            sky.faults += _aftermath(sky)
        except KeyboardInterrupt:
            sky.faults.append("it was interrupted")
        finally:
            _tell(sky)
            print("strangers: " + ", ".join(f"{name}: {count}" for name, count in sorted(siege.answers.items())))
    return 1 if sky.faults else 0


def _aftermath(sky: Sky) -> list[str]:
    """Return what does not hold when all has calmed down, and again when all is deleted."""
    try:
        sky.instance.await_idle(_IDLE_SECONDS)
        found = [*_wrong(sky), *sky.instance.leftovers()]
        _delete_all(sky)
        return found + [f"at the end: {one}" for one in sky.instance.leftovers()]
    except FAULTS as fault:
        return [f"{type(fault).__name__}: {fault}"]


def _blow(sky: Sky, clients: int, seconds: float, seed: int) -> None:
    """Run the clients, and note the memory of the server meanwhile."""
    pid = sky.instance.process.pid if sky.instance.process else 0
    threads = [threading.Thread(target=_client, args=(sky, seed + number)) for number in range(clients)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            time.sleep(min(5.0, seconds / 4))
            sky.sizes.append(psutil.Process(pid).memory_info().rss // _MIB)
    finally:
        sky.over.set()
        for thread in threads:
            thread.join(120)


def _client(sky: Sky, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a seed must give the same run again
    key = sky.instance.credentials
    base = f"{key['base_url']}/projects/{key['project_id']}"
    auth = (key["public_key"], key["secret_key"])
    try:
        with httpx.Client(base_url=base, auth=auth, timeout=120, trust_env=False) as client:
            while not sky.over.is_set():
                _act(sky, client, chance)
    except Exception as fault:  # noqa: BLE001 - the thread's edge: the proof tells of it
        sky.faults.append(f"a client ended with {type(fault).__name__}: {fault}")


def _act(sky: Sky, client: httpx.Client, chance: random.Random) -> None:
    listed = client.get("/services")
    sky.note("list", listed)
    known = [one["service_id"] for one in listed.json()] if listed.status_code == 200 else []
    chosen = chance.choice(known) if known else None
    if chosen is None or (len(known) < sky.limit and chance.random() < 0.25):
        _bear(sky, client, chance, chosen)
    elif chance.random() < _READ_SHARE:
        sky.note("get", client.get(f"/services/{chosen}"))
    elif chance.random() < 0.1:
        _break_off(sky, chance)
    else:
        _change(sky, client, chance, chosen)


def _bear(sky: Sky, client: httpx.Client, chance: random.Random, parent: str | None) -> None:
    """Create or fork, at times twice with one key: that must be one service."""
    name = f"storm-{secrets.token_hex(6)}"
    verb, path, body = "create", "/services", {"name": name}
    if parent is not None and chance.random() < 0.7:
        strategy = chance.choice(["NOW", "NOW", "LAST_SNAPSHOT"])
        verb, path, body = "fork", f"/services/{parent}/forkService", {"name": name, "fork_strategy": strategy}
    sky.asked[name] += 1
    for _ in range(2 if chance.random() < 0.2 else 1):
        answer = client.post(path, json=body, headers={"Idempotency-Key": name})
        sky.note(verb, answer)
        if answer.status_code == 202:
            service_id = answer.json()["service_id"]
            if sky.accepted.setdefault(name, service_id) != service_id:
                sky.faults.append(f"{name} was made twice: {sky.accepted[name]} and {service_id}")


def _change(sky: Sky, client: httpx.Client, chance: random.Random, service_id: str) -> None:
    verb = chance.choice(["stop", "start", "delete", "snapshots", "resize", "rename"])
    match verb:
        case "delete":
            sky.doomed.add(service_id)
            answer = client.delete(f"/services/{service_id}")
        case "resize":
            answer = client.post(f"/services/{service_id}/resize", json={"cpu_millis": "1000", "memory_gbs": "2"})
        case "rename":
            answer = client.post(f"/services/{service_id}/rename", json={"name": f"renamed-{service_id}"})
        case _:
            answer = client.post(f"/services/{service_id}/{verb}")
    sky.note(verb, answer)


def _break_off(sky: Sky, chance: random.Random) -> None:
    """Go away in the middle of a request, or after it without hearing the answer."""
    key = sky.instance.credentials
    address = urlsplit(key["base_url"])
    head = f"GET {address.path}/projects/{key['project_id']}/services HTTP/1.1\r\nHost: x\r\n".encode()
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(head if chance.random() < 0.5 else head + b"\r\n")
        time.sleep(chance.uniform(0, 0.2))
    sky.answers["broken off"] += 1


def _wrong(sky: Sky) -> list[str]:
    """Return what does not hold of the services, now that all operations are over."""
    rows = sky.instance.rows("SELECT id, name, deleted_at, failed_at, failure, paused, down_reason FROM service")
    by_id = {row[0]: row for row in rows}
    found = [f"{name} was accepted as {one} and is unknown" for name, one in sky.accepted.items() if one not in by_id]
    if len(rows) != len(sky.accepted):
        found.append(f"{len(sky.accepted)} services were accepted, and {len(rows)} are known")
    shown: dict[str, Any] = {one["service_id"]: one for one in sky.instance.call("GET", "/services").json()}
    for service_id, _name, deleted, failed, failure, paused, down in by_id.values():
        if deleted or failed:
            if not deleted and not failure and service_id not in sky.doomed:
                found.append(f"{service_id} is gone without a reason")
        elif shown.get(service_id, {}).get("status") != ("PAUSED" if paused else "READY"):
            found.append(f"{service_id} is {shown.get(service_id, {}).get('status')}: {down}")
    return found


def _delete_all(sky: Sky) -> None:
    for service in sky.instance.call("GET", "/services").json():
        sky.note("last delete", sky.instance.call("DELETE", f"/services/{service['service_id']}"))
    eventually(lambda: not sky.instance.call("GET", "/services").json(), "all are gone", 0.2, seconds=_IDLE_SECONDS)
    sky.instance.await_idle(_IDLE_SECONDS)


def _tell(sky: Sky) -> None:
    ordered, sizes, faults = sorted(sky.seconds) or [0.0], sky.sizes, sky.faults
    print(f"answers: {sum(sky.answers.values())}, of them 5xx: {sky.broken}")
    print("  " + ", ".join(f"{name}: {count}" for name, count in sorted(sky.answers.items())))
    print(f"services accepted: {len(sky.accepted)}, lost or doubled: {len(_doubled(sky))}")
    half = statistics.median(ordered)
    print(f"seconds to answer: p50 {half:.3f}, p99 {ordered[int(len(ordered) * 0.99)]:.3f}, max {ordered[-1]:.3f}")
    print(f"memory of the server in MiB: {' '.join(map(str, sizes[:: max(1, len(sizes) // 20)]))}")
    print(f"faults: {len(faults)}", *faults[:50], sep="\n", flush=True)


def _doubled(sky: Sky) -> list[str]:
    ids = Counter(sky.accepted.values())
    return [one for one, count in ids.items() if count > 1]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/prove storm", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long (10)")
    parser.add_argument("--clients", type=int, default=32, help="how many at once (32)")
    parser.add_argument("--services", type=int, default=30, help="how many services there are at most, about (30)")
    parser.add_argument("--half-open", type=int, default=HALF_OPEN, help="connections of strangers (500; 0: none)")
    parser.add_argument("--seed", type=int, help="the same seed makes the same choices again")
    parser.add_argument("--data", type=Path, help="where to make the data directory (the system's temporary one)")
    return parser
