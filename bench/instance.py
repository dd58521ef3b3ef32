"""A whole Ramet under test: `ramet up` in a process of its own, spoken to over HTTP like any client's."""

import base64
import contextlib
import http.client
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from ramet.backends.local.host.paths import ServicePaths, layout_of

LOOK_EVERY_SECONDS = 0.004
_UP_WITHIN_SECONDS = 60.0
_READY_WITHIN_SECONDS = 600.0
_IDLE_SECONDS = 3.0
# Room for what fills 10 GB, its WAL and the archive of that; blocks that are not written take no disk.
_IMAGE_GBS = 64
_RAMET = Path(sys.executable).with_name("ramet")


@dataclass(frozen=True)
class Timed:
    """One service that was asked for, and how long it took, in milliseconds from the request sent."""

    service: dict[str, Any]
    accepted_ms: float
    ready_ms: float
    answered_ms: float

    @property
    def service_id(self) -> str:
        """Its id."""
        return str(self.service["service_id"])


class Api:
    """One connection to the interface. Not to be shared between threads."""

    def __init__(self, credentials: Mapping[str, str], look_seconds: float = LOOK_EVERY_SECONDS) -> None:
        self._look_seconds = look_seconds
        address = urlsplit(credentials["base_url"])
        key = f"{credentials['public_key']}:{credentials['secret_key']}".encode()
        self._headers = {"Authorization": f"Basic {base64.b64encode(key).decode()}", "Content-Type": "application/json"}
        self._services = f"{address.path}/projects/{credentials['project_id']}/services"
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        self._used_at = time.monotonic()

    def call(self, method: str, path: str = "", body: object = None) -> Any:
        """Send a request about services and return what the answer holds. Raises RuntimeError for refusals."""
        if time.monotonic() - self._used_at > _IDLE_SECONDS:
            self._connection.close()  # the server has done so: the request opens another one
        payload = None if body is None else json.dumps(body)
        self._connection.request(method, self._services + path, payload, self._headers)
        response = self._connection.getresponse()
        content = response.read()
        self._used_at = time.monotonic()
        if response.status == http.client.NOT_FOUND:
            return None
        if response.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{method} {path}: {response.status} {content.decode()}")
        return json.loads(content) if content else None

    def create(self, name: str) -> Timed:
        """Create a service, and return when it has answered a query."""
        return self._timed("", {"name": name, "service_type": "POSTGRES", "region_code": "local"})

    def fork(self, parent_id: str, strategy: str, target_time: datetime | None = None) -> Timed:
        """Fork a service, and return when the fork has answered a query."""
        body: dict[str, object] = {"fork_strategy": strategy, "environment_tag": "DEV"}
        if target_time is not None:
            body["target_time"] = target_time.isoformat()
        return self._timed(f"/{parent_id}/forkService", body)

    def ask_fork(self, parent_id: str) -> dict[str, Any]:
        """Ask for a fork as of now, and return what was accepted."""
        return dict(self.call("POST", f"/{parent_id}/forkService", {"fork_strategy": "NOW"}))

    def delete(self, service_id: str) -> None:
        """Delete a service, and return when nothing of it is left."""
        self.call("DELETE", f"/{service_id}")
        _until(lambda: self.call("GET", f"/{service_id}") is None, "DELETED", 0.01)

    def snapshot(self, service_id: str) -> datetime:
        """Take a snapshot, and return its time when it is there."""
        made = self.call("POST", f"/{service_id}/snapshots", {})

        def taken() -> Any:
            found = [one for one in self.call("GET", f"/{service_id}/snapshots") if one["id"] == made["id"]]
            return found and found[0]["status"] == "AVAILABLE" and found[0]

        return datetime.fromisoformat(_until(taken, "a snapshot", 0.01)["time"])

    def _timed(self, path: str, body: object) -> Timed:
        begun = time.perf_counter()
        service = self.call("POST", path, body)
        accepted = time.perf_counter()
        self.wait_ready(service["service_id"])
        ready = time.perf_counter()
        select_one(service)
        answered = time.perf_counter()
        return Timed(service, *(1000 * (moment - begun) for moment in (accepted, ready, answered)))

    def wait_ready(self, service_id: str) -> None:
        """Look every few milliseconds until a service is READY."""

        def ready() -> bool:
            status = self.call("GET", f"/{service_id}")
            if status["status"] in ("FAILED", "DELETED"):
                raise RuntimeError(f"service {service_id} failed: {status}")
            return bool(status["status"] == "READY")

        _until(ready, "READY", self._look_seconds)


@dataclass(frozen=True)
class Instance:
    """A running Ramet."""

    data: Path
    credentials: Mapping[str, str]
    pid: int

    def api(self, look_seconds: float = LOOK_EVERY_SECONDS) -> Api:
        """Return a connection of its own, which looks so often how far a service is."""
        return Api(self.credentials, look_seconds)

    def paths(self, service_id: str) -> ServicePaths:
        """Return the places of a service."""
        return layout_of(self.data, pool_of(self.data)).service(service_id)

    def steps(self, service_id: str) -> dict[str, float]:
        """Return the milliseconds of each step that the newest operation on a service has finished."""
        return steps_of(self.data / "ramet.db", service_id)


def pool_of(data: Path) -> Path:
    """Return the directory that holds the services of a data root, which has one at least."""
    found = [path.parent for path in (data / "services", *data.glob("*/services")) if path.is_dir()]
    return found[0]


def steps_of(database: Path, service_id: str) -> dict[str, float]:
    """Return the milliseconds of each step of the fork or create of a service."""
    query = (
        "SELECT e.step, e.seconds FROM operation_event e JOIN operation o ON o.id = e.operation_id"
        " WHERE o.subject = ? AND o.procedure IN ('fork', 'create') ORDER BY e.id"
    )
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return {step: 1000 * seconds for step, seconds in connection.execute(query, (service_id,))}


def select_one(service: Mapping[str, Any]) -> None:
    """Ask a service's endpoint for 1, over TLS, with the password that was announced."""
    with connect(service) as connection:
        connection.execute("SELECT 1")


def connect(service: Mapping[str, Any]) -> psycopg.Connection[Any]:
    """Connect as the admin of a service that was just made."""
    endpoint = service["endpoint"]
    return psycopg.connect(
        host=endpoint["host"],
        port=endpoint["port"],
        user="tsdbadmin",
        password=service["initial_password"],
        dbname="tsdb",
        sslmode="require",
        autocommit=True,
    )


@contextlib.contextmanager
def instance(data: Path, driver: str = "auto", **variables: str) -> Iterator[Instance]:
    """Run Ramet on a data directory that is made anew, and leave nothing behind."""
    private = {
        **os.environ,
        "XDG_CONFIG_HOME": str(data / "config"),
        "RAMET_LOG_LEVEL": "WARNING",
        "RAMET_PLAINTEXT_ENDPOINTS": "on",
        **variables,
    }
    _clear(data, private)  # what a run that was killed has left
    data.mkdir(parents=True, mode=0o711)
    private["RAMET_IMAGE_GBS"] = str(max(1, min(_IMAGE_GBS, shutil.disk_usage(data).free // 1024**3 - 1)))
    file, log = data / "credentials-of-bench.json", data / "ramet.log"
    command = [_RAMET, "up", "--data", data, "--port", "0", "--storage-driver", driver, "--credentials-file", file]
    with log.open("wb") as output:
        process = subprocess.Popen(list(map(str, command)), env=private, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + _UP_WITHIN_SECONDS
        while not file.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"ramet up has not come up: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        time.sleep(0.05)
        yield Instance(data, json.loads(file.read_text()), process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        _clear(data, private)


def _clear(data: Path, environment: Mapping[str, str]) -> None:
    """End all servers below a data directory, unmount its storage, and remove it."""
    if data.exists():
        subprocess.run([_RAMET, "down", "--data", data], env=environment, check=False, capture_output=True, timeout=180)
        shutil.rmtree(data, ignore_errors=True)


def _until(seen: Any, wanted: str, pause_seconds: float) -> Any:
    begun = time.monotonic()
    while not (found := seen()):
        elapsed = time.monotonic() - begun
        if elapsed > _READY_WITHIN_SECONDS:
            raise TimeoutError(f"not {wanted} within {_READY_WITHIN_SECONDS:g} s")
        # Twenty clients that look without a pause would measure themselves.
        time.sleep(max(pause_seconds, elapsed / 20))
    return found
