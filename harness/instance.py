"""One Ramet as an operator runs it: `ramet up` in a separate process, killed and started again at will."""

import contextlib
import functools
import json
import os
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg

from harness.ports import free_port, service_ports
from harness.waiting import eventually, uninterrupted
from ramet.backends.local.backend import LocalBackend, open_backend
from ramet.backends.local.doctor import has_storage
from ramet.backends.local.host.paths import layout_of
from ramet.backends.local.inventory import LocalInventory
from ramet.backends.local.off_host.shipping import switch_segment
from ramet.client import Client
from ramet.control.leftovers import find_leftovers
from ramet.store.database import Store

# Snapshots and the work after a fork come often enough that short runs see them.
FREQUENT_SNAPSHOTS = {"RAMET_SNAPSHOT_SECONDS": "20", "RAMET_FORK_REST_SECONDS": "0"}
_SECONDS = 180.0
_SHELL_SECONDS = 600.0
_tls = functools.cache(ssl.create_default_context)  # reading the host's certificates takes longer than a request


@dataclass(frozen=True)
class Step:
    """The state of one operation."""

    operation_id: str
    procedure: str
    subject: str
    step: str
    status: str


@dataclass
class Instance:
    """A directory with all that one Ramet has, and the process that serves it, if one runs."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    program: Sequence[str] = (sys.executable, "-m", "ramet")
    process: "subprocess.Popen[bytes] | None" = None
    port: int = field(default_factory=free_port)
    services: range = field(default_factory=service_ports)
    _store: sqlite3.Connection | None = None
    _backend: LocalBackend | None = None

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.root / "data"

    @property
    def credentials_file(self) -> Path:
        """The file into which `ramet up` writes its address and key."""
        return self.root / "credentials.json"

    @property
    def log_file(self) -> Path:
        """The output of every process that was started here."""
        return self.root / "ramet.log"

    @property
    def log(self) -> str:
        """What the log file holds."""
        return self.log_file.read_text()

    @property
    def credentials(self) -> dict[str, str]:
        """The credentials that `ramet up` wrote."""
        found: dict[str, str] = json.loads(self.credentials_file.read_text())
        return found

    def up(self, *options: str) -> None:
        """Run `ramet up` until it is ready."""
        self.credentials_file.unlink(missing_ok=True)
        ports = f"{self.services.start}-{self.services.stop - 1}"
        given = ("--port-range", ports, "--credentials-file", str(self.credentials_file))
        self.start("up", *given, *options, ready=self.credentials_file.exists)

    def start(self, command: str, *options: str, ready: Callable[[], bool]) -> None:
        """Start a command that keeps running; return when it is ready. Raises AssertionError if it ends before."""
        words = [*self.program, command, "--data", str(self.data), *options]
        with self.log_file.open("ab") as log, uninterrupted():
            self.process = process = subprocess.Popen(
                words, env=self._environ(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

        def is_ready() -> bool:
            if process.poll() is not None:
                raise AssertionError(f"ramet {command} ended with {process.returncode}: {self.log[-3000:]}")
            return ready()

        eventually(is_ready, what=f"ramet {command}", pause_seconds=0.02)

    def run(self, *words: str, answer: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command to its end; `answer` is its standard input."""
        command, environ = [*self.program, *words], self._environ()
        return subprocess.run(
            command, env=environ, input=answer, capture_output=True, text=True, timeout=_SECONDS, check=False
        )

    def run_shell(self, text: str, directory: Path) -> "subprocess.CompletedProcess[str]":
        """Run commands in a directory as a person types them."""
        return subprocess.run(
            ["bash", "-euc", text],
            cwd=directory,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SHELL_SECONDS,
            check=False,
        )

    def run_until(self, seconds: float, *words: str) -> bool:
        """Run a command and kill it after a time; return False when it had ended before."""
        with self.log_file.open("ab") as log:
            process = subprocess.Popen(
                [*self.program, *words], env=self._environ(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return True
        return False

    def terminate(self) -> int:
        """End the process by SIGTERM and return its exit code."""
        if self.process is None:
            raise AssertionError("BUG: nothing runs")
        self.process.send_signal(signal.SIGTERM)
        return self._await_end()

    def kill(self) -> None:
        """End the process, if there is one, by SIGKILL."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def down(self) -> int:
        """End the process and all databases by `ramet down`; return the exit code of `ramet up`."""
        done = self.run("down", "--data", str(self.data))
        if done.returncode != 0:
            raise AssertionError(f"ramet down ended with {done.returncode}: {done.stderr}")
        return self._await_end()

    def _await_end(self) -> int:
        """Return the exit code of the process; one that does not end in time stays known, for `kill`."""
        status = 0 if self.process is None else self.process.wait(_SECONDS)
        self.process = None
        return status

    def client(self) -> Client:
        """Return a client of the only project."""
        key = self.credentials
        words = (key["base_url"], key["project_id"], key["public_key"], key["secret_key"])
        return Client(*words, ca=key.get("ca", ""), timeout_seconds=60)

    def call(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send a request about the project over a separate connection, and return whatever the answer is."""
        key = self.credentials
        auth = (key["public_key"], key["secret_key"])
        url = f"{key['base_url']}/projects/{key['project_id']}{path}"
        return httpx.request(method, url, json=body, auth=auth, timeout=60, trust_env=False, verify=_tls())

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request that must be accepted; return the body of its answer."""
        answer = self.call(method, path, body)
        if answer.status_code >= 300:
            raise AssertionError(f"{method} {path} {body}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None

    @property
    def backend(self) -> LocalBackend:
        """The backend of the host, opened beside that of `ramet up`."""
        if self._backend is None:
            self._backend = open_backend(self.data)
        return self._backend

    def await_archived(self, service_id: str) -> None:
        """Wait until the off-host archive has what was committed before this call. Closes the WAL segment of it."""
        begun = datetime.now(UTC)

        def is_archived() -> bool:
            switch_segment(self.backend.instances.paths(service_id))
            until = self.ask("GET", f"/services/{service_id}/archive")["archived_until"]
            return until is not None and datetime.fromisoformat(until) > begun

        eventually(is_archived, f"the archive of {service_id}", 0.5)

    def leftovers(self) -> list[str]:
        """Return what `ramet doctor --leftovers` would say."""
        with contextlib.closing(Store.open(f"sqlite:///{self.data}/ramet.db")) as store:
            return [finding.sentence for finding in find_leftovers(store, LocalInventory(self.backend))]

    def rows(self, query: str, *values: object) -> list[Any]:
        """Query the store's file without any code of Ramet."""
        if self._store is None:
            path = f"file:{self.data}/ramet.db?mode=ro"
            self._store = sqlite3.connect(path, uri=True, timeout=30, check_same_thread=False)
        return self._store.execute(query, values).fetchall()

    def store_files(self) -> dict[Path, bytes]:
        """Return the bytes of the store's files, read by another process.

        A process that closes a file loses its locks on it: SQLite, and the connection of `rows`, would not know.
        """
        files = sorted(self.data.glob("ramet.db*"))
        return {path: subprocess.run(["cat", path], check=True, capture_output=True).stdout for path in files}

    def steps(self, condition: str = "1", *values: object) -> list[Step]:
        """Return the state of the operations that meet a condition, oldest first."""
        query = f"SELECT id, procedure, subject, step, status FROM operation WHERE {condition} ORDER BY created_at"  # noqa: S608 - ours
        return [Step(*row) for row in self.rows(query, *values)]

    def await_idle(self, seconds: float = _SECONDS) -> None:
        """Wait until no operation is running."""
        running = "status IN ('RUNNING', 'UNDOING')"
        eventually(lambda: not self.steps(running), lambda: f"the end of {self.steps(running)}", seconds=seconds)

    def remove(self) -> None:
        """Kill the process, destroy all services, unmount the storage, and remove every file."""
        with uninterrupted():
            self.kill()
            if self._store is not None:
                self._store.close()
                self._store = None
            if has_storage(self.data):
                services = self.backend.instances.layout.services
                with contextlib.ExitStack() as ends:  # what cannot be destroyed keeps nothing else running
                    ends.callback(self.backend.host.stop_all)
                    for path in list(services.iterdir()) if services.is_dir() else []:
                        ends.callback(self.backend.servers.destroy, path.name)
            shutil.rmtree(layout_of(self.data, self.data).sockets, ignore_errors=True)
            shutil.rmtree(self.root)

    def _environ(self) -> dict[str, str]:
        """Return the variables of the process: none of the user's own configuration."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAMET_")}
        if "RAMET_PG_BIN" in os.environ:
            kept["RAMET_PG_BIN"] = os.environ["RAMET_PG_BIN"]
        home = {"HOME": str(self.root), "XDG_CONFIG_HOME": str(self.root / "config")}
        # Servers that nobody has asked for would be in the way of whoever counts or measures.
        usual = {"RAMET_PLAINTEXT_ENDPOINTS": "on", "RAMET_AUTOMATIC_WARM_FORKS": "0", "RAMET_PORT": str(self.port)}
        return {**kept, **home, **usual, **self.environment}


@contextlib.contextmanager
def open_instance(directory: Path | None = None, **environment: str) -> Iterator[Instance]:
    """Make an instance in a new directory, with its own environment; nothing runs yet. At the end all is removed."""
    root = Path(tempfile.mkdtemp(prefix="ramet-test-", dir=directory))
    root.chmod(0o711)  # the servers' account must get in
    made = Instance(root, environment)
    try:
        yield made
    finally:
        made.remove()


@contextlib.contextmanager
def running_instance(directory: Path | None = None, *options: str, **environment: str) -> Iterator[Instance]:
    """Run `ramet up` in a fresh directory; at the end all of it is removed."""
    with open_instance(directory, **environment) as made:
        made.up(*options)
        yield made


def connect(port: int, password: str, **parameters: str) -> "psycopg.Connection[tuple[Any, ...]]":
    """Connect to a service as its admin, over TCP, as a client would."""
    usual = {"host": "localhost", "user": "tsdbadmin", "dbname": "tsdb", "connect_timeout": "30"}
    return psycopg.connect(port=port, password=password, autocommit=True, **{**usual, **parameters})  # type: ignore[arg-type]
