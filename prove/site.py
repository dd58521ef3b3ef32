"""A whole Ramet as an operator runs it: `ramet up` in a process of its own, which may be killed and started again."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg

from ramet.backends.local.backend import LocalBackend, open_backend
from ramet.backends.local.inventory import LocalInventory
from ramet.client import Client
from ramet.control.leftovers import find_leftovers
from ramet.store.database import Store

# What may come of a trial that goes wrong: it is told, and the next one begins.
FAULTS = (AssertionError, OSError, psycopg.Error, httpx.HTTPError, sqlite3.Error)
_UP_WITHIN_SECONDS = 90.0
_LOOK_EVERY_SECONDS = 0.002
_LASTING_PORTS = range(10000, 15000)
_RAMET = Path(sys.executable).with_name("ramet")


@dataclass(frozen=True)
class Step:
    """Where an operation is."""

    operation_id: str
    procedure: str
    subject: str
    step: str
    status: str


@dataclass
class Site:
    """One data directory, and the `ramet up` that serves it, if one runs."""

    root: Path
    port: int
    environment: dict[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None
    program: Sequence[str] = (str(_RAMET),)
    _asking: sqlite3.Connection | None = None
    _opened: list[LocalBackend] = field(default_factory=list)

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.root / "data"

    @property
    def log(self) -> Path:
        """What all runs of `ramet up` have said."""
        return self.root / "up.log"

    def up(self) -> None:
        """Start `ramet up`, and return when it answers."""
        command = [*self.program, "up", "--data", str(self.data), "--port", str(self.port)]
        command += ["--credentials-file", str(self.root / "key.json"), "--port-range", self._ports()]
        with self.log.open("ab") as log, uninterrupted():
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._environment(), start_new_session=True
            )
        eventually(self._answers, _UP_WITHIN_SECONDS, "ramet up answers", 0.05)

    def kill(self) -> None:
        """Kill -9 `ramet up`."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self) -> None:
        """Close the store's file."""
        if self._asking is not None:
            self._asking.close()
            self._asking = None

    def down(self) -> None:
        """Stop everything as an operator does."""
        command = [*self.program, "down", "--data", str(self.data)]
        subprocess.run(command, env=self._environment(), check=True, capture_output=True, timeout=180)
        if self.process is not None:
            self.process.wait(60)
            self.process = None

    def client(self) -> Client:
        """Return a client of the only project."""
        key = self.key()
        return Client(key["base_url"], key["project_id"], key["public_key"], key["secret_key"], timeout_seconds=60)

    def key(self) -> dict[str, str]:
        """Return the credentials that `ramet up` made."""
        found: dict[str, str] = json.loads((self.root / "key.json").read_text())
        return found

    def call(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send a request about the project, without any help."""
        key = self.key()
        auth = (key["public_key"], key["secret_key"])
        url = f"{key['base_url']}/projects/{key['project_id']}{path}"
        return httpx.request(method, url, json=body, auth=auth, timeout=60, trust_env=False)

    @property
    def backend(self) -> LocalBackend:
        """The host, looked at beside `ramet up`."""
        if not self._opened:
            self._opened.append(open_backend(self.data))
        return self._opened[0]

    def leftovers(self) -> list[str]:
        """Return what `ramet doctor --leftovers` would say."""
        with contextlib.closing(Store.open(f"sqlite:///{self.data}/ramet.db")) as store:
            return [finding.sentence for finding in find_leftovers(store, LocalInventory(self.backend))]

    def rows(self, query: str, *values: object) -> list[Any]:
        """Ask the store's file, past all code of Ramet."""
        if self._asking is None:
            path = f"file:{self.data}/ramet.db?mode=ro"
            self._asking = sqlite3.connect(path, uri=True, timeout=30, check_same_thread=False)
        return self._asking.execute(query, values).fetchall()

    def steps(self, condition: str = "1", *values: object) -> list[Step]:
        """Return where operations are, oldest first."""
        query = f"SELECT id, procedure, subject, step, status FROM operation WHERE {condition} ORDER BY created_at"  # noqa: S608 - ours
        return [Step(*row) for row in self.rows(query, *values)]

    def await_idle(self, seconds: float) -> None:
        """Wait until no operation is under way."""
        under_way = "status IN ('RUNNING', 'UNDOING')"
        eventually(lambda: not self.steps(under_way), seconds, lambda: f"idle: {self.steps(under_way)}")

    def _ports(self) -> str:
        """Return a range that other sites on this host hardly have."""
        first = 20000 + self.port % 25 * 500
        return f"{first}-{first + 499}"

    def _answers(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError(f"ramet up ended with {self.process.returncode}: {self.log.read_text()[-3000:]}")
        try:
            return self.call("GET", "/services").status_code == 200
        except (OSError, ValueError, httpx.HTTPError):
            return False

    def _environment(self) -> dict[str, str]:
        own = {
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "RAMET_SNAPSHOT_SECONDS": "20",
            "RAMET_PLAINTEXT_ENDPOINTS": "on",
        }
        own["RAMET_FORK_REST_SECONDS"] = "0"
        return {**os.environ, **own, **self.environment}


@contextlib.contextmanager
def open_site(
    directory: Path | None, prepare: Callable[[Site], None] = lambda _: None, /, **environment: str
) -> Iterator[Site]:
    """Run a Ramet in a fresh directory, with variables of its own; at the end all of it is removed.

    `prepare` gets the site before anything runs there.
    """
    root = Path(tempfile.mkdtemp(prefix="ramet-site-", dir=directory))
    root.chmod(0o711)
    site = Site(root, _free_port(), environment)
    try:
        prepare(site)
        site.up()
        yield site
    finally:
        with uninterrupted():
            _remove(site)


def _remove(site: Site) -> None:
    site.kill()
    site.close()
    services = site.backend.servers.layout.services
    for path in list(services.iterdir()) if services.is_dir() else []:
        site.backend.destroy(path.name)
    site.backend.stop_all()
    shutil.rmtree(site.root)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Keep a Ctrl-C until the end of the block: what is begun and not noted would stay for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: told.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if told:
        raise KeyboardInterrupt


def connect(port: int, password: str) -> "psycopg.Connection[tuple[Any, ...]]":
    """Connect to a service as its admin, over TCP, as a client would."""
    return psycopg.connect(
        host="localhost",
        port=port,
        user="tsdbadmin",
        dbname="tsdb",
        password=password,
        connect_timeout=10,
        autocommit=True,
    )


def eventually(
    seen: Callable[[], bool], seconds: float, what: str | Callable[[], str], pause_seconds: float = _LOOK_EVERY_SECONDS
) -> None:
    """Wait until something holds; raises TimeoutError, saying what did not come."""
    deadline = time.monotonic() + seconds
    while not seen():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what if isinstance(what, str) else what()} within {seconds:g} s: it did not come")
        time.sleep(pause_seconds)


def _free_port() -> int:
    """Return a port that stays free while nobody listens: the system lends none of these to clients."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = random.choice(_LASTING_PORTS)  # noqa: S311
            probe.bind(("127.0.0.1", port))
            return port
