"""A machine that can be lost: one Ramet with archived services under load.

The answers that clients got are kept outside.
"""

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg

from harness.instance import Instance, connect
from harness.ports import service_ports
from harness.waiting import eventually
from prove.acknowledged import TABLE, Key, Noted, Writers, read_notes, rows_of
from ramet.machine.installation import find_installations

_POLL_SECONDS = 0.2
_PROMISE_SECONDS = 300.0


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

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the load appends to."""
        return ("ledger", "pgbench_history") if self.scale else ("ledger",)

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """Connect as the admin."""
        return connect(self.port, self.password)

    @property
    def promised(self) -> datetime | None:
        """What was confirmed before this time survives: the latest time that was announced."""
        return max(self.announced, default=None)

    def noted(self) -> Noted:
        """Return what the clients have noted."""
        return read_notes(self.notes)

    def recovered(self, notes: Path, port: int) -> "Busy":
        """Return the same service on the next machine: with what it holds now, and numbers that were never sent."""
        sent = self.noted().sent
        first = 1 + max((number for _, number in sent | self.kept), default=0)
        with connect(port, self.password) as connection:
            kept = frozenset(rows_of(connection))
        return Busy(self.name, self.service_id, port, self.password, notes, self.scale, first, kept)

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


class Machine:
    """The instance, its services, and who listens to what it announces. `root` and what is there outlive it."""

    def __init__(self, root: Path, variables: Mapping[str, str], services: range | None = None) -> None:
        self.root, self.variables = root, dict(variables)
        place = Path(tempfile.mkdtemp(prefix="machine-", dir=root))
        place.chmod(0o711)
        self.instance = Instance(place, self.variables, services=services or service_ports())
        self.services = list[Busy]()
        self.lags = list[float]()
        self.began_at = datetime.now(UTC)
        self.was_interrupted = False
        self._lost = threading.Event()
        self._listener: threading.Thread | None = None

    @property
    def key_file(self) -> Path:
        """The recovery key of the installation, kept outside."""
        return self.root / f"{self.variables['RAMET_ARCHIVE_URL'].rpartition('/')[2]}.key"

    @property
    def ports(self) -> str:
        """The ports of services."""
        return f"{self.instance.services.start}-{self.instance.services.stop - 1}"

    def install(self) -> None:
        """Start Ramet for the first time, and keep its recovery key outside."""
        self.instance.up()
        done = self.instance.run("archive", "key", "--data", str(self.instance.data))
        if done.returncode != 0:
            raise AssertionError(f"ramet archive key ended with {done.returncode}: {done.stderr}")
        self.key_file.write_text(done.stdout)

    def adopt(self, lost: "Machine") -> None:
        """Take the services of a lost machine as they are here; what is not there is left out."""
        for busy in lost.services:
            if self.instance.call("GET", f"/services/{busy.service_id}").status_code == 200:
                self.await_ready(busy.service_id)
                self.services.append(busy.recovered(self._notes(busy.service_id), self._port(busy.service_id)))

    def create(self, name: str, scale: int = 0) -> Busy:
        """Make a service that is archived, with its tables."""
        made = self.instance.ask("POST", "/services", {"name": name, "environment_tag": "PROD"})
        busy = self._add(name, made, scale)
        busy.fill()
        return busy

    def fork(self, parent: Busy) -> Busy:
        """Fork a service as of now, archive the fork, and wait until it is READY."""
        path, name = f"/services/{parent.service_id}/forkService", f"{parent.name}-fork"
        made = self.instance.ask("POST", path, {"name": name, "fork_strategy": "NOW", "environment_tag": "PROD"})
        return self._add(name, made, 0)

    def _add(self, name: str, made: dict[str, Any], scale: int) -> Busy:
        service_id = made["service_id"]
        self.await_ready(service_id)
        port, notes = self._port(service_id), self._notes(service_id)
        self.services.append(busy := Busy(name, service_id, port, made["initial_password"], notes, scale))
        return busy

    def _port(self, service_id: str) -> int:
        return int(self.instance.ask("GET", f"/services/{service_id}")["endpoint"]["port"])

    def _notes(self, service_id: str) -> Path:
        return self.instance.root.with_suffix(f".{service_id}.jsonl")

    def await_ready(self, service_id: str) -> None:
        """Wait until a service is READY."""
        path = f"/services/{service_id}"
        eventually(lambda: self.instance.ask("GET", path)["status"] == "READY", f"{service_id} READY", 0.05)

    def begin(self, rate: int) -> None:
        """Begin the load, and note what Ramet announces of each service."""
        for busy in self.services:
            busy.begin(rate)
        self.began_at = datetime.now(UTC)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def await_promises(self) -> None:
        """Wait until a time after the beginning of the load is announced as archived, of every service."""

        def are_promised() -> bool:
            return all(busy.promised is not None and busy.promised > self.began_at for busy in self.services)

        def what() -> str:
            state = [(busy.name, busy.promised, busy.problems[-1:]) for busy in self.services]
            return f"an archived_until after {self.began_at} of every service ({state})"

        eventually(are_promised, what, 0.1, seconds=_PROMISE_SECONDS)

    def snapshot(self, busy: Busy) -> None:
        """Take a snapshot, and wait until it is there."""
        path = f"/services/{busy.service_id}/snapshots"
        made = self.instance.ask("POST", path, {})["id"]

        def is_available() -> bool:
            return any(one["id"] == made and one["status"] == "AVAILABLE" for one in self.instance.ask("GET", path))

        eventually(is_available, "a snapshot", 0.05)

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
        """Kill all processes and remove every file; return when that was. What was announced until then counts.

        May run twice.
        """
        self._lost.set()
        self.instance.kill()
        lost_at = datetime.now(UTC)
        if self._listener is not None:
            self._listener.join()
        for busy in self.services:
            busy.end()
        if self.instance.root.exists():
            self.instance.remove()
        return lost_at
