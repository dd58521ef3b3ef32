"""A machine that can be lost: one Ramet with archived services under load. What clients were told is kept outside."""

import contextlib
import os
import subprocess
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg

from harness.instance import Instance, connect
from harness.waiting import eventually
from prove.acknowledged import TABLE, Key, Writers
from ramet.machine.installation import find_installations

_POLL_SECONDS = 0.2


@dataclass
class Busy:
    """A service, its clients, and the times that Ramet has announced as archived."""

    name: str
    service_id: str
    port: int
    password: str
    notes: Path
    scale: int = 0
    first: int = 1
    kept: frozenset[Key] = frozenset()
    announced: list[datetime] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _writers: Writers | None = None
    _pgbench: "subprocess.Popen[bytes] | None" = None

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """Connect as the admin."""
        return connect(self.port, self.password)

    @property
    def promised(self) -> datetime | None:
        """What was confirmed before this time survives: the latest time that was announced."""
        return max(self.announced, default=None)

    @property
    def writers(self) -> Writers:
        """The clients that append rows."""
        if self._writers is None:
            raise AssertionError("BUG: the load has not begun")
        return self._writers

    def fill(self) -> None:
        """Make the tables of pgbench and of the clients."""
        with self.connect() as connection:
            connection.execute(TABLE)
        if self.scale:
            command = self._pgbench_command("-i", "-q", "-s", str(self.scale))
            subprocess.run(command, env=self._environment(), check=True, capture_output=True)

    def begin(self, rate: int) -> None:
        """Begin the load: several clients that append rows, and pgbench where there are tables of it."""
        self._writers = Writers(self.port, self.password, self.notes, first=self.first)
        self._writers.start()
        if self.scale:
            command = self._pgbench_command("-n", "-c", "2", "-R", str(rate), "-T", "86400")
            quiet = subprocess.DEVNULL
            self._pgbench = subprocess.Popen(command, env=self._environment(), stdout=quiet, stderr=quiet)

    def end(self) -> None:
        """End the load."""
        pgbench, self._pgbench = self._pgbench, None
        if pgbench is not None:
            pgbench.kill()
            pgbench.wait()
        if self._writers is not None:
            self._writers.stop()

    def _pgbench_command(self, *options: str) -> list[str]:
        program = find_installations().default.program("pgbench")
        return [program, "-h", "localhost", "-p", str(self.port), "-U", "tsdbadmin", *options, "tsdb"]

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "PGPASSWORD": self.password}


@dataclass
class Machine:
    """The instance, its services, and who listens to what it announces."""

    instance: Instance
    notes: Path
    services: list[Busy] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    _lost: threading.Event = field(default_factory=threading.Event)
    _listener: threading.Thread | None = None

    def create(self, name: str, scale: int = 0) -> Busy:
        """Make a service that is archived, with its tables."""
        made = self.instance.ask("POST", "/services", {"name": name, "environment_tag": "PROD"})
        return self._add(name, made, scale)

    def fork(self, parent: Busy) -> Busy:
        """Fork a service as of now, archive the fork, and wait until it is READY."""
        path = f"/services/{parent.service_id}/forkService"
        name = f"{parent.name}-fork"
        made = self.instance.ask("POST", path, {"name": name, "fork_strategy": "NOW", "environment_tag": "PROD"})
        return self._add(name, made, 0)

    def _add(self, name: str, made: dict[str, Any], scale: int) -> Busy:
        service_id = made["service_id"]
        self.await_ready(service_id)
        notes = self.notes / f"{service_id}.jsonl"
        port = self.instance.ask("GET", f"/services/{service_id}")["endpoint"]["port"]
        busy = Busy(name, service_id, port, made["initial_password"], notes, scale)
        busy.fill()
        self.services.append(busy)
        return busy

    def await_ready(self, service_id: str) -> None:
        """Wait until a service is READY."""
        path = f"/services/{service_id}"
        eventually(lambda: self.instance.ask("GET", path)["status"] == "READY", f"{service_id} READY", 0.05)

    def listen(self) -> None:
        """Begin to note what Ramet announces of each service."""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        while not self._lost.wait(_POLL_SECONDS):
            for busy in list(self.services):
                with contextlib.suppress(httpx.HTTPError, AssertionError, FileNotFoundError):
                    self._hear(busy, self.instance.ask("GET", f"/services/{busy.service_id}/archive"))

    def _hear(self, busy: Busy, archive: dict[str, Any]) -> None:
        if archive["archived_until"] is not None and not self._lost.is_set():
            busy.announced.append(datetime.fromisoformat(archive["archived_until"]))
            self.lags.append(archive["lag_seconds"])
        if archive["problem"] is not None:
            busy.problems.append(archive["problem"])

    def lose(self) -> datetime:
        """Kill all processes and remove every file; return when that was. What was announced until then counts."""
        self._lost.set()
        self.instance.kill()
        lost_at = datetime.now(UTC)
        if self._listener is not None:
            self._listener.join()
        for busy in self.services:
            busy.end()
        self.instance.remove()
        return lost_at
