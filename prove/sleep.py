"""Clients of services that sleep: none is refused, whether it comes while the server sleeps, stops or starts.

Each trial sends 50 clients at once to a service that sleeps. In those of `--spread` the clients come while it falls
asleep, and in those of `--kills` Ramet is killed by SIGKILL and started again while they come.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import psycopg

from harness.instance import Instance, connect, running_instance
from harness.waiting import eventually
from ramet.client import Client, Keeping

_SECONDS = 120.0
_SLEEP_AFTER_SECONDS = 5
_CLIENTS = 50
_BARE_STARTS = 5


@dataclass
class _Found:
    """What the clients met: how long the first and the last of those that came at once waited, and errors."""

    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    clients: int = 0


@dataclass(frozen=True)
class _Target:
    """The service, and how its clients connect."""

    client: Client
    service_id: str
    port: int
    password: str

    def sleeps(self) -> bool:
        """Tell whether its server is stopped."""
        return self.client.get_service(self.service_id).metadata.sleeping

    def ask(self, delay_seconds: float = 0.0) -> float:
        """Connect after a while, and ask; return how long that took."""
        time.sleep(delay_seconds)
        begun = time.monotonic()
        with connect(self.port, self.password) as connection:
            if connection.execute("SELECT count(*) FROM kept").fetchone() != (1,):
                raise AssertionError("a row is missing")
        return time.monotonic() - begun


def main(words: Sequence[str]) -> int:
    """Run the trials; 0 when no client met an error and nothing is left over."""
    parser = argparse.ArgumentParser(prog="prove sleep")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--spread", type=int, default=20)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    arguments = parser.parse_args(words)
    print(f"sleep: seed {arguments.seed}", file=sys.stderr)
    chance, found = random.Random(arguments.seed), _Found()  # noqa: S311 - repeatable on purpose
    with running_instance() as ramet:
        with ramet.client() as client:
            target = _target(client)
            _time_bare_starts(target, found)
            for trial in range(arguments.trials):
                _try(target, chance, found, f"trial {trial}", at_once=True)
            for trial in range(arguments.spread):
                _try(target, chance, found, f"spread {trial}", at_once=False)
        for trial in range(arguments.kills):
            _try_with_kill(ramet, target, chance, found, f"kill {trial}")
        with ramet.client() as client:
            client.delete_service(target.service_id)
        ramet.await_idle()
        left = ramet.leftovers()
    _print(found, left)
    return 1 if found.faults or left else 0


def _target(client: Client) -> _Target:
    accepted = client.create_service("sleeper", keeping=Keeping(sleep_after_seconds=_SLEEP_AFTER_SECONDS))
    ready = client.wait_ready(accepted.service_id, timeout_seconds=_SECONDS)
    target = _Target(client, ready.service_id, ready.endpoint.port, str(accepted.initial_password))
    with connect(target.port, target.password) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1")
    return target


def _time_bare_starts(target: _Target, found: _Found) -> None:
    """Measure how long the first client waits when the service is started by its verb, and not by that client."""
    for _ in range(_BARE_STARTS):
        target.client.stop_service(target.service_id)
        target.client.wait_paused(target.service_id, timeout_seconds=_SECONDS)
        begun = time.monotonic()
        target.client.start_service(target.service_id)
        target.client.wait_ready(target.service_id, timeout_seconds=_SECONDS)
        target.ask()
        found.bare.append(time.monotonic() - begun)


def _try(target: _Target, chance: random.Random, found: _Found, name: str, *, at_once: bool) -> None:
    if at_once:
        eventually(target.sleeps, "the service falls asleep", 0.1)
        delays = [0.0] * _CLIENTS
    else:
        delays = [chance.uniform(_SLEEP_AFTER_SECONDS - 0.5, _SLEEP_AFTER_SECONDS + 3.0) for _ in range(_CLIENTS)]
    waits = _ask_all(target, delays, found, name)
    if at_once and waits:
        found.first.append(min(waits))
        found.last.append(max(waits))


def _try_with_kill(ramet: Instance, target: _Target, chance: random.Random, found: _Found, name: str) -> None:
    """Kill Ramet at a random time while the service falls asleep, or just after clients have come to wake it."""
    wakes = chance.random() < 0.5
    with ThreadPoolExecutor(1) as pool:
        if wakes:
            with ramet.client() as client:
                eventually(lambda: client.get_service(target.service_id).metadata.sleeping, "it falls asleep", 0.1)
            asked = pool.submit(_ask_all, target, [0.0] * _CLIENTS, found, name)
            time.sleep(chance.uniform(0.0, 0.5))
        else:
            time.sleep(chance.uniform(_SLEEP_AFTER_SECONDS, _SLEEP_AFTER_SECONDS + 2.5))
        ramet.kill()
        if not wakes:
            asked = pool.submit(_ask_all, target, [0.0] * _CLIENTS, found, name)
        ramet.up()
        asked.result()


def _ask_all(target: _Target, delays: Sequence[float], found: _Found, name: str) -> list[float]:
    """Send clients; return how long each of them waited."""
    found.clients += len(delays)
    with ThreadPoolExecutor(len(delays)) as pool:
        asked = [pool.submit(target.ask, delay) for delay in delays]
    waits = []
    for one in asked:
        try:
            waits.append(one.result())
        except (psycopg.Error, AssertionError) as error:
            found.faults.append(f"{name}: {error}")
    return waits


def _print(found: _Found, left: Sequence[str]) -> None:
    refused = len(found.faults)
    print(f"{found.clients} clients, {refused} refused or in error, {len(left)} leftovers")
    print(
        f"of {_CLIENTS} clients at once: first answer p50 {statistics.median(found.first):.2f} s (longest"
        f" {max(found.first):.2f} s), last answer p50 {statistics.median(found.last):.2f} s; start by the verb, and one"
        f" client: p50 {statistics.median(found.bare):.2f} s"
    )
    for one in [*found.faults[:20], *left]:
        print(one, file=sys.stderr)
