"""A fork whose data is replaced while processes are killed: it is wholly in the old or wholly in the new state."""

import contextlib
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import psycopg

from harness.instance import Instance, connect
from harness.waiting import eventually
from prove.journal import Journal, rows_of
from prove.made import Made
from ramet.api.schemas.restores import Restore
from ramet.model.status import OperationStatus

_NONE = psycopg.errors.UndefinedTable
_TABLE = "CREATE TABLE IF NOT EXISTS trial (n int PRIMARY KEY)"


@dataclass
class _Expected:
    """The rows of the two states; `new` is None for a fresh copy of the parent, which has `since` of its rows."""

    old: Sequence[int]
    new: Sequence[int] | None
    since: int = 0


@dataclass
class Replaced:
    """A fork that stays, and in each trial is restored, reset, rewound, or given back what it had."""

    instance: Instance
    fork: Made
    parent: Made
    journal: Journal
    number: int = 0
    expected: _Expected | None = None
    replica: tuple[str, int] | None = None
    kept: list[str] = field(default_factory=list)

    def begin(self, chance: random.Random) -> None:
        """Write rows before and after a time, then ask for one of the ways to replace them."""
        self.number += 1
        way = chance.choice(["time", "snapshot", "undo", "from", "reset", "rewind", "rewind"])
        self._write(2 * self.number)
        before, moment, name = self._rows(), datetime.now(UTC), f"checkpoint {self.number}"
        if way in ("snapshot", "rewind"):
            self._checkpoint(name)
        while datetime.now(UTC) <= moment:
            time.sleep(0.001)
        self._write(2 * self.number + 1)
        self.expected = _Expected(self._rows(), before)
        path, body = "restores", dict[str, object](target_time=moment.isoformat())
        if way == "undo":
            previous = self._await(self._ask(path, body)).previous_service_id
            self.kept.append(str(previous))
            self.expected, body = _Expected(before, self.expected.old), {"from_service_id": previous}
        elif way == "snapshot":
            body = {"snapshot": name}
        elif way == "rewind":
            path, body = "rewind", {"name": name, "keep_previous": chance.random() < 0.5}
        elif way in ("from", "reset"):
            self.expected = _Expected(self.expected.old, None, len(self.journal.acknowledged))
            path = "restores" if way == "from" else "reset"
            body = {"from_service_id": self.parent.service_id} if way == "from" else {"keep_previous": True}
        self._ask(path, body)

    def begin_with_replica(self, chance: random.Random) -> None:
        """Do the same with a read replica, which is made again."""
        body = {"name": "reports", "nodes": 1, "cpu_millis": 500, "memory_gbs": 2}
        made = self.instance.ask("POST", self._path("replicaSets"), body)
        self.replica = made["id"], made["endpoint"]["port"]
        self._await_replica(made["id"])
        self.begin(chance)

    def faults(self, counts: Counter[str]) -> list[str]:
        """Return what does not hold of the service, of its state before, and of its replica."""
        if self.expected is None:
            return []
        with self.instance.client() as client:
            client.wait_ready(self.fork.service_id, timeout_seconds=120)
            newest = client.list_restores(self.fork.service_id).restores[0]
        is_new = newest.status is OperationStatus.SUCCEEDED
        counts[f"{newest.verb}s that {'succeeded' if is_new else 'failed'}"] += 1
        if not is_new:
            counts[f"reason: {str(newest.error).splitlines()[0][:100]}"] += 1
        found = [f"{newest.verb} is {newest.status}"] if newest.finished_at is None else []
        found += self._wrong(self.fork.port, is_new=is_new)
        if newest.previous_service_id is not None:
            self.kept.append(newest.previous_service_id)
            found += self._faults_of_previous(newest.previous_service_id)
        if self.replica is not None:
            found += self._faults_of_replica(*self.replica)
        return [f"{newest.verb} {newest.restore_id}: {one}" for one in found]

    def clean_up(self) -> None:
        """Delete what the trial has left."""
        if self.replica is not None:
            self.instance.ask("DELETE", self._path(f"replicaSets/{self.replica[0]}"))
            eventually(lambda: not self._sets(), lambda: f"no sets: {self._sets()}", 0.05)
        for service_id in self.kept:
            self.instance.ask("DELETE", f"/services/{service_id}")
        self.forget()

    def forget(self) -> None:
        """Look no more at the trial."""
        self.expected, self.replica = None, None
        self.kept.clear()

    def _faults_of_previous(self, service_id: str) -> list[str]:
        """Start the state before, which must be the old one."""
        shown = self.instance.ask("GET", f"/services/{service_id}")
        if shown["status"] != "PAUSED":
            return [f"the state before is {shown['status']}"]
        self.instance.ask("POST", f"/services/{service_id}/start")
        with self.instance.client() as client:
            client.wait_ready(service_id, timeout_seconds=120)
        return [f"the state before: {one}" for one in self._wrong(shown["endpoint"]["port"], is_new=False)]

    def _faults_of_replica(self, set_id: str, port: int) -> list[str]:
        self._await_replica(set_id)
        wanted = self._rows()
        eventually(lambda: self._rows(port) == wanted, "the replica's rows", 0.1)
        return []

    def _wrong(self, port: int, *, is_new: bool) -> list[str]:
        if self.expected is None:
            raise AssertionError("BUG: nothing is expected")
        rows, wanted = self._rows(port), self.expected.new if is_new else self.expected.old
        if wanted is None:
            found = ["it still has rows of its own"] if rows else []
            return found + self.journal.faults(rows_of(port, self.fork.password), self.expected.since)
        return [] if rows == wanted else [f"it has {len(rows)} rows, wanted are {len(wanted)}"]

    def _write(self, number: int) -> None:
        with connect(self.fork.port, self.fork.password) as connection:
            connection.execute(_TABLE)
            connection.execute("INSERT INTO trial VALUES (%s)", (number,))

    def _rows(self, port: int | None = None) -> list[int]:
        with contextlib.suppress(_NONE), connect(port or self.fork.port, self.fork.password) as connection:
            return [int(n) for (n,) in connection.execute("SELECT n FROM trial ORDER BY n").fetchall()]
        return []

    def _checkpoint(self, name: str) -> None:
        with self.instance.client() as client:
            taken = client.create_checkpoint(self.fork.service_id, name)
            client.wait_checkpoint(self.fork.service_id, taken.id)

    def _ask(self, verb: str, body: Mapping[str, object]) -> str:
        return str(self.instance.ask("POST", self._path(verb), body)["restore_id"])

    def _await(self, restore_id: str) -> Restore:
        with self.instance.client() as client:
            found = client.wait_restored(self.fork.service_id, restore_id)
            client.wait_ready(self.fork.service_id, timeout_seconds=120)
        if found.error is not None:
            raise AssertionError(f"a restore that nobody disturbed failed: {found.error}")
        return found

    def _await_replica(self, set_id: str) -> None:
        eventually(lambda: self._sets().get(set_id) == "active", lambda: f"an active set: {self._sets()}", 0.05)

    def _sets(self) -> dict[str, str]:
        return {one["id"]: one["status"] for one in self.instance.ask("GET", self._path("replicaSets"))}

    def _path(self, rest: str) -> str:
        return f"/services/{self.fork.service_id}/{rest}"
