"""A connection to Ramet's interface that measures: how long until a service is accepted, READY, and answers a query."""

import base64
import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import psycopg

import harness.instance
from harness.waiting import eventually

_WAIT = {"Prefer": "wait=30"}
_READY_WITHIN_SECONDS = 600.0
_IDLE_SECONDS = 3.0
_LOOK_SECONDS = 0.2
_WARM_WITHIN_SECONDS = 180.0


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

    def __init__(self, credentials: Mapping[str, str]) -> None:
        address = urlsplit(credentials["base_url"])
        key = f"{credentials['public_key']}:{credentials['secret_key']}".encode()
        self._headers = {"Authorization": f"Basic {base64.b64encode(key).decode()}", "Content-Type": "application/json"}
        self._services = f"{address.path}/projects/{credentials['project_id']}/services"
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        self._used_at = time.monotonic()

    def call(self, method: str, path: str = "", body: object = None, headers: Mapping[str, str] | None = None) -> Any:
        """Send a request about services and return what the answer holds. Raises RuntimeError for refusals."""
        if time.monotonic() - self._used_at > _IDLE_SECONDS:
            self._connection.close()  # the server has done so: the request opens another one
        payload = None if body is None else json.dumps(body)
        self._connection.request(method, self._services + path, payload, {**self._headers, **(headers or {})})
        response = self._connection.getresponse()
        content = response.read()
        self._used_at = time.monotonic()
        if response.status == http.client.NOT_FOUND:
            return None
        if response.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{method} {path}: {response.status} {content.decode()}")
        return json.loads(content) if content else None

    def create(self, name: str, environment: str = "DEV") -> Timed:
        """Create a service, and return when it has answered a query."""
        body = {"name": name, "service_type": "POSTGRES", "region_code": "local", "environment_tag": environment}
        return self.timed("", body)

    def fork(self, parent_id: str, strategy: str, target_time: datetime | None = None) -> Timed:
        """Fork a service, and return when the fork has answered a query."""
        body: dict[str, object] = {"fork_strategy": strategy, "environment_tag": "DEV"}
        if target_time is not None:
            body["target_time"] = target_time.isoformat()
        return self.timed(f"/{parent_id}/forkService", body)

    def ask_fork(self, parent_id: str) -> dict[str, Any]:
        """Ask for a fork as of now, and return what was accepted."""
        return dict(self.call("POST", f"/{parent_id}/forkService", {"fork_strategy": "NOW"}))

    def delete(self, service_id: str) -> None:
        """Delete a service, and return when nothing of it is left."""
        self.call("DELETE", f"/{service_id}")
        _await(lambda: self.call("GET", f"/{service_id}", headers=_WAIT) is None, "DELETED", 0.01)

    def await_warm(self, service_id: str, ready: int) -> None:
        """Wait until so many warm forks of a service are ready, and no other is being made."""

        def is_full() -> bool:
            found = self.call("GET", f"/{service_id}/warmForks")
            return bool(found["ready"] >= ready and found["being_made"] == 0)

        eventually(is_full, f"{ready} warm forks", _LOOK_SECONDS, seconds=_WARM_WITHIN_SECONDS)

    def snapshot(self, service_id: str) -> datetime:
        """Take a snapshot, and return its time when it is there."""
        made = self.call("POST", f"/{service_id}/snapshots", {})
        return datetime.fromisoformat(self.await_snapshot(service_id, made["id"])["time"])

    def await_snapshot(self, service_id: str, snapshot_id: str) -> Any:
        """Wait until a snapshot is there, and return it."""

        def taken() -> Any:
            found = [one for one in self.call("GET", f"/{service_id}/snapshots") if one["id"] == snapshot_id]
            return found and found[0]["status"] == "AVAILABLE" and found[0]

        return _await(taken, "a snapshot", 0.01)

    def timed(self, path: str, body: object) -> Timed:
        """Send a request that makes a service, and return when that has answered a query."""
        begun = time.perf_counter()
        service = self.call("POST", path, body)
        accepted = time.perf_counter()
        self.wait_ready(service["service_id"])
        ready = time.perf_counter()
        select_one(service)
        answered = time.perf_counter()
        return Timed(service, *(1000 * (instant - begun) for instant in (accepted, ready, answered)))

    def wait_ready(self, service_id: str) -> None:
        """Wait until a service is READY, as the client does: the response comes when it is."""

        def ready() -> bool:
            status = self.call("GET", f"/{service_id}", headers=_WAIT)
            if status["status"] in ("UNSTABLE", "DELETED"):
                raise RuntimeError(f"service {service_id} failed: {status}")
            return bool(status["status"] == "READY")

        _await(ready, "READY", 0.004)


def select_one(service: Mapping[str, Any]) -> None:
    """Ask a service's endpoint for 1, over TLS, with the password that was announced."""
    with connect(service) as connection:
        connection.execute("SELECT 1")


def connect(service: Mapping[str, Any]) -> psycopg.Connection[Any]:
    """Connect as the admin of a service that was just made."""
    endpoint, password = service["endpoint"], service["initial_password"]
    return harness.instance.connect(endpoint["port"], password, host=endpoint["host"], sslmode="require")


def _await(seen: Any, wanted: str, pause_seconds: float) -> Any:
    begun = time.monotonic()
    while not (found := seen()):
        elapsed = time.monotonic() - begun
        if elapsed > _READY_WITHIN_SECONDS:
            raise TimeoutError(f"not {wanted} within {_READY_WITHIN_SECONDS:g} s")
        # Twenty clients that look without a pause would measure themselves.
        time.sleep(max(pause_seconds, elapsed / 20))
    return found
