"""Restores in place under a numbered ledger: exact rows, an undo that gives back all later ones, and the short stop.

A client commits the numbers 1, 2, 3, … one by one; another one asks for an answer all the time. Each trial restores the
service to a time between two commits, compares the rows, undoes that, and compares again.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import psycopg

from harness.instance import Instance, connect, running_instance
from ramet.api.schemas.restores import Restore
from ramet.client import Client
from ramet.model.status import OperationStatus

_SECONDS = 300.0


@dataclass
class _Watch:
    """Asks for an answer all the time; `longest` is the longest time without one so far."""

    port: int
    password: str
    longest: float = 0.0
    _answered: float = field(default_factory=time.monotonic)
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Ask until `end`, with a new connection after each error."""
        while not self._ended.is_set():
            try:
                with connect(self.port, self.password) as connection:
                    while not self._ended.is_set():
                        connection.execute("SELECT 1")
                        now = time.monotonic()
                        self.longest, self._answered = max(self.longest, now - self._answered), now
            except psycopg.Error:
                continue

    def end(self) -> None:
        """Ask no more."""
        self._ended.set()


@dataclass
class _Ledger:
    """Numbers that are committed one by one, each with a time after its acknowledgement."""

    port: int
    password: str
    number: int = 0

    def add(self, count: int) -> datetime:
        """Commit further numbers; return a time after them and before whatever is committed next."""
        with connect(self.port, self.password) as connection:
            for _ in range(count):
                self.number += 1
                connection.execute("INSERT INTO ledger VALUES (%s)", (self.number,))
        found = datetime.now(UTC)
        while datetime.now(UTC) == found:
            continue
        return found

    def rows(self) -> list[int]:
        """Return the numbers that the service has."""
        with connect(self.port, self.password) as connection:
            return [row[0] for row in connection.execute("SELECT n FROM ledger ORDER BY n").fetchall()]


def main(words: Sequence[str]) -> int:
    """Run the trials; 0 when no row was wrong and nothing is left over."""
    parser = argparse.ArgumentParser(prog="prove restore")
    parser.add_argument("--trials", type=int, default=100)
    arguments = parser.parse_args(words)
    with running_instance() as ramet:
        stops, faults = _trials(ramet, arguments.trials)
        ramet.await_idle()
        left = ramet.leftovers()
    ordered = sorted(stops)
    shown = f"p50 {statistics.median(ordered):.2f} s, p99 {ordered[int(0.99 * (len(ordered) - 1))]:.2f} s"
    print(f"{len(stops)} restores and undos, {len(faults)} faults, {len(left)} leftovers; without an answer: {shown}")
    for one in [*faults, *left]:
        print(one, file=sys.stderr)
    return 1 if faults or left else 0


def _trials(ramet: Instance, count: int) -> tuple[list[float], list[str]]:
    stops: list[float] = []
    faults: list[str] = []
    with ramet.client() as client:
        accepted = client.create_service("ledger")
        ready = client.wait_ready(accepted.service_id, timeout_seconds=_SECONDS)
        ledger = _Ledger(ready.endpoint.port, str(accepted.initial_password))
        with connect(ledger.port, ledger.password) as connection:
            connection.execute("CREATE TABLE ledger (n int PRIMARY KEY)")
        watch = _Watch(ledger.port, ledger.password)
        asking = threading.Thread(target=watch.run)
        asking.start()
        try:
            for trial in range(count):
                faults += [
                    f"trial {trial}: {fault}" for fault in _trial(client, ready.service_id, ledger, watch, stops)
                ]
        finally:
            watch.end()
            asking.join()
    return stops, faults


def _trial(client: Client, service_id: str, ledger: _Ledger, watch: _Watch, stops: list[float]) -> list[str]:
    target = ledger.add(20)
    wanted = ledger.rows()
    ledger.add(20)
    later = ledger.rows()
    begun = client.restore_service(service_id, target_time=target.isoformat())
    restored = _ended(client, begun, watch, stops)
    faults = [] if ledger.rows() == wanted else ["the rows are not those of the time"]
    previous_id = str(restored.previous_service_id)
    undone = _ended(client, client.restore_service(service_id, from_service_id=previous_id), watch, stops)
    faults += [] if ledger.rows() == later else ["the undo did not give back all later rows"]
    for one in (previous_id, str(undone.previous_service_id)):
        client.delete_service(one)
    return faults


def _ended(client: Client, begun: Restore, watch: _Watch, stops: list[float]) -> Restore:
    watch.longest = 0.0
    found = client.wait_restored(begun.service_id, begun.restore_id, _SECONDS)
    if found.status is not OperationStatus.SUCCEEDED:
        raise AssertionError(f"restore {begun.restore_id} failed: {found.error}")
    client.wait_ready(begun.service_id, timeout_seconds=_SECONDS)
    stops.append(watch.longest)
    return found
