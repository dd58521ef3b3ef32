"""Read replica sets that harm is done to: each follows its service again, or is gone with its reason."""

import contextlib
import os
import signal
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psycopg

from harness.instance import Instance
from harness.waiting import eventually
from prove.journal import Journal, rows_of
from prove.made import Made
from ramet.backends.local.process.identity import find_server

_BODY = {"name": "followers", "nodes": 1, "cpu_millis": 500, "memory_gbs": 2}


@dataclass
class Followers:
    """The sets of one service. `made` holds the ids and ports of those that were asked for and not deleted yet."""

    instance: Instance
    parent: Made
    journal: Journal
    made: dict[str, int] = field(default_factory=dict)
    doomed: set[str] = field(default_factory=set)

    def create(self) -> str:
        """Ask for a set."""
        answer = self.instance.ask("POST", self._path(), _BODY)
        self.made[answer["id"]] = answer["endpoint"]["port"]
        return str(answer["id"])

    def resize(self) -> None:
        """Give a new set another size."""
        self.instance.ask("POST", self._path(self._active(), "/resize"), {"cpu_millis": "1000", "memory_gbs": "4"})

    def crash(self) -> None:
        """Kill the server of a new set."""
        pid = find_server(self.instance.backend.instances.paths(self._active()))
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def delete(self) -> None:
        """Delete a new set."""
        self._delete(self._active())

    def enable_pooler(self) -> None:
        """Give a new set a pooler."""
        self.instance.ask("POST", self._path(self._active(), "/enablePooler"))

    def faults(self, counts: Counter[str]) -> list[str]:
        """Return what does not hold of the sets and their rows."""
        return [f"replica set {set_id}: {one}" for set_id in self.made for one in self._faults_of(set_id, counts)]

    def clean_up(self) -> None:
        """Delete all sets."""
        for set_id in self._listed():
            if set_id not in self.doomed:
                self._delete(set_id)
        eventually(lambda: not self._listed(), lambda: f"no sets: {self._listed()}", 0.05)

    def _faults_of(self, set_id: str, counts: Counter[str]) -> list[str]:
        query = "SELECT failure, deleted_at FROM replica_set WHERE id = ?"
        ((failure, deleted),) = self.instance.rows(query, set_id)
        if set_id in self.doomed:
            counts["replica sets deleted"] += 1
            return [] if deleted else ["it was to be deleted and is not"]
        if failure:
            counts["replica sets gone with their reason"] += 1
            counts[f"reason: {failure.splitlines()[0][:100]}"] += 1
            return []
        self._await_active(set_id)
        counts["replica sets active"] += 1
        return self._wrong_rows(self.made[set_id])

    def _wrong_rows(self, port: int) -> list[str]:
        """Wait until a set has what was acknowledged before, then look for what is missing in between."""
        rows: list[int] = []
        wanted = len(self.journal.acknowledged)

        def has_caught_up() -> bool:
            with contextlib.suppress(psycopg.Error):
                rows[:] = rows_of(port, self.parent.password)
            return not self.journal.faults(rows, wanted)

        eventually(has_caught_up, lambda: f"the rows: {self.journal.faults(rows, wanted)}", 0.1)
        return []

    def _active(self) -> str:
        set_id = self.create()
        self._await_active(set_id)
        return set_id

    def _await_active(self, set_id: str) -> None:
        eventually(
            lambda: self._listed().get(set_id) == "active",
            lambda: f"an active replica set {set_id}: {self._listed()}",
            0.03,
        )

    def _delete(self, set_id: str) -> None:
        self.doomed.add(set_id)
        self.instance.ask("DELETE", self._path(set_id))

    def _listed(self) -> dict[str, Any]:
        return {one["id"]: one["status"] for one in self.instance.ask("GET", self._path())}

    def _path(self, set_id: str = "", verb: str = "") -> str:
        return f"/services/{self.parent.service_id}/replicaSets{'/' if set_id else ''}{set_id}{verb}"
