"""A typed, synchronous client of the HTTP interface, with helpers that wait.

with Client(base_url, project_id, public_key, secret_key) as ramet:
    fork = ramet.fork_service(parent_id, ForkStrategy.NOW)
    ramet.wait_ready(fork.service_id, timeout_seconds=60)
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec

from ramet.api.wire import AuthInfo, ErrorBody, Project, ReadReplicaSet, Service
from ramet.api.wire_logs import ServiceLogs
from ramet.api.wire_metrics import MetricSeries
from ramet.api.wire_operations import Operations
from ramet.api.wire_restore import ForkPlan, ForkReport, RestoreWindow, Snapshot
from ramet.errors import Error, Invalid, Unavailable
from ramet.model.credentials import Secret
from ramet.model.fork import ForkStrategy
from ramet.model.service import Environment, ServiceType, Status

_Answer = TypeVar("_Answer")
_ON_THE_WAY = {
    Status.READY: (Status.QUEUED, Status.CONFIGURING, Status.RESUMING, Status.UPGRADING, Status.OPTIMIZING),
    Status.PAUSED: (Status.PAUSING, Status.UPGRADING),
    Status.DELETED: (Status.DELETING,),
}
_SHORTEST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 1.0
_TOLERATED_OUTAGE_SECONDS = 15.0


class ApiError(Error):
    """The server refused a request: `status` is that of HTTP, the rest is its own words."""

    def __init__(self, status: int, code: str, message: str, details: str = "") -> None:
        super().__init__(code, message, details)
        self.status = status


class TimedOut(Error):
    """Something took longer than the caller wanted to wait. It goes on all the same."""


class WaitFailed(Error):
    """A service went another way than the one that was waited for."""


class Client:
    """One project, through one API key. May be shared between threads."""

    def __init__(
        self,
        base_url: str,
        project_id: str,
        public_key: str,
        secret_key: str | Secret,
        *,
        timeout_seconds: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`base_url` ends in /public/api/v1; raises Invalid when it is no address.

        A `transport` of one's own replaces the network, in tests.
        """
        secret = secret_key.reveal() if isinstance(secret_key, Secret) else secret_key
        self.base_url = _checked_address(base_url)
        self.project_id = project_id
        self._http = httpx.Client(
            base_url=self.base_url,
            auth=httpx.BasicAuth(public_key, secret),
            timeout=timeout_seconds,
            transport=transport,
            trust_env=False,
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def auth_info(self) -> AuthInfo:
        """Return whose key this is."""
        return self._call("GET", "/auth/info", AuthInfo)

    def list_projects(self) -> list[Project]:
        """Return the project that the key opens."""
        return self._call("GET", "/projects", list[Project])

    def list_services(self) -> list[Service]:
        """Return the services of the project, oldest first."""
        return self._call("GET", self._path(), list[Service])

    def get_service(self, service_id: str) -> Service:
        """Return a service."""
        return self._call("GET", self._path(service_id), Service)

    def create_service(
        self,
        name: str,
        *,
        service_type: ServiceType = ServiceType.POSTGRES,
        cpu_millis: str | None = None,
        memory_gbs: str | None = None,
        environment: Environment = Environment.DEV,
        idempotency_key: str | None = None,
    ) -> Service:
        """Ask for a new, empty service; its `initial_password` is in this answer only."""
        size = _given(cpu_millis=cpu_millis, memory_gbs=memory_gbs)
        body = {"name": name, "service_type": service_type, "environment_tag": environment, **size}
        return self._call("POST", self._path(), Service, body, idempotency_key)

    def fork_service(
        self,
        service_id: str,
        strategy: ForkStrategy,
        *,
        target_time: str | None = None,
        name: str | None = None,
        cpu_millis: str | None = None,
        memory_gbs: str | None = None,
        environment: Environment = Environment.DEV,
        idempotency_key: str | None = None,
    ) -> Service:
        """Ask for a fork; its `initial_password` is in this answer only. What is None is inherited."""
        given = _given(target_time=target_time, name=name, cpu_millis=cpu_millis, memory_gbs=memory_gbs)
        body = {"fork_strategy": strategy, "environment_tag": environment, **given}
        return self._call("POST", self._path(service_id, "forkService"), Service, body, idempotency_key)

    def start_service(self, service_id: str) -> Service:
        """Ask for a paused service to be resumed."""
        return self._call("POST", self._path(service_id, "start"), Service)

    def stop_service(self, service_id: str) -> Service:
        """Ask for a service to be paused."""
        return self._call("POST", self._path(service_id, "stop"), Service)

    def delete_service(self, service_id: str) -> None:
        """Ask for a service to be deleted with its snapshots and its archive."""
        self._send("DELETE", self._path(service_id))

    def restore_window(self, service_id: str) -> RestoreWindow:
        """Return the moments to which a service can be forked, and its snapshots."""
        return self._call("GET", self._path(service_id, "restoreWindow"), RestoreWindow)

    def list_snapshots(self, service_id: str) -> list[Snapshot]:
        """Return the snapshots of a service, oldest first, and then those that are being made by hand."""
        return self._call("GET", self._path(service_id, "snapshots"), list[Snapshot])

    def take_snapshot(self, service_id: str, name: str | None = None) -> Snapshot:
        """Ask for a snapshot; it is AVAILABLE a moment later, and stays until it is deleted."""
        return self._call("POST", self._path(service_id, "snapshots"), Snapshot, _given(name=name))

    def delete_snapshot(self, service_id: str, snapshot_id: str) -> None:
        """Ask for a manual snapshot to be deleted."""
        self._send("DELETE", self._path(service_id, "snapshots", snapshot_id))

    def fork_report(self, service_id: str) -> ForkReport:
        """Return what exactly a READY fork holds."""
        return self._call("GET", self._path(service_id, "forkReport"), ForkReport)

    def plan_fork(self, service_id: str, strategy: ForkStrategy, **fields: str | None) -> ForkPlan:
        """Return what a fork with these fields of a request would be; nothing is made."""
        body = {"fork_strategy": strategy, **_given(**fields)}
        return self._call("POST", self._path(service_id, "forkService") + "?dry_run=true", ForkPlan, body)

    def rename_service(self, service_id: str, name: str) -> Service:
        """Give a service another name."""
        return self._call("POST", self._path(service_id, "rename"), Service, {"name": name})

    def resize_service(self, service_id: str, cpu_millis: str, memory_gbs: str) -> Service:
        """Ask for another size; 'shared' for both gives a share of the host. Wait as after a start."""
        body = {"cpu_millis": cpu_millis, "memory_gbs": memory_gbs}
        return self._call("POST", self._path(service_id, "resize"), Service, body)

    def optimize_service(self, service_id: str) -> Service:
        """Ask for fresh statistics; wait as after a start. The service serves meanwhile."""
        return self._call("POST", self._path(service_id, "optimize"), Service)

    def update_password(self, service_id: str, password: Secret) -> None:
        """Change the password of tsdbadmin; only the new one opens the service from now on."""
        self._send("POST", self._path(service_id, "updatePassword"), {"password": password.reveal()})

    def set_environment(self, service_id: str, environment: Environment) -> None:
        """Say how much is at stake."""
        self._send("POST", self._path(service_id, "setEnvironment"), {"environment": environment})

    def read_logs(self, service_id: str, **query: str | Sequence[str]) -> ServiceLogs:
        """Return a page of a service's log, newest first; `query` holds since, until, search, severities, cursor."""
        return self._call("GET", self._path(service_id, "logs") + _query(query), ServiceLogs)

    def list_series(self, service_id: str) -> list[str]:
        """Return the names of the series that are measured of a service."""
        return self._call("GET", self._path(service_id, "metrics", "available-series"), list[str])

    def read_series(
        self, service_id: str, name: str, begin: datetime, end: datetime, **more: object
    ) -> list[MetricSeries]:
        """Return a series for each combination of labels; `more` holds bucket_seconds, fn and filters."""
        body = {"name": name, "from": begin.isoformat(), "to": end.isoformat(), **more}
        return self._call("POST", self._path(service_id, "metrics", "series"), list[MetricSeries], body)

    def list_operations(self, service_id: str | None = None, **query: str) -> Operations:
        """Return what was done to a service, or to all of the project, newest first; `query` holds limit, cursor."""
        path = self._path().removesuffix("/services") if service_id is None else self._path(service_id)
        return self._call("GET", f"{path}/operations" + _query(query), Operations)

    def enable_pooler(self, service_id: str) -> None:
        """Give a service a pooler; `connection_pooler` of the service tells its address."""
        self._send("POST", self._path(service_id, "enablePooler"))

    def disable_pooler(self, service_id: str) -> None:
        """Take a service's pooler away."""
        self._send("POST", self._path(service_id, "disablePooler"))

    def list_replica_sets(self, service_id: str) -> list[ReadReplicaSet]:
        """Return the read replica sets of a service, oldest first."""
        return self._call("GET", self._path(service_id, "replicaSets"), list[ReadReplicaSet])

    def create_replica_set(
        self, service_id: str, name: str, *, nodes: int = 1, cpu_millis: str | int, memory_gbs: str | int
    ) -> ReadReplicaSet:
        """Ask for read-only copies that follow a service. Wait for their id as for a service's."""
        body = {"name": name, "nodes": nodes, "cpu_millis": cpu_millis, "memory_gbs": memory_gbs}
        return self._call("POST", self._path(service_id, "replicaSets"), ReadReplicaSet, body)

    def delete_replica_set(self, service_id: str, set_id: str) -> None:
        """Ask for a read replica set to be deleted."""
        self._send("DELETE", self._path(service_id, "replicaSets", set_id))

    def resize_replica_set(self, service_id: str, set_id: str, cpu_millis: str, memory_gbs: str) -> None:
        """Ask for another size of each node of a set."""
        body = {"cpu_millis": cpu_millis, "memory_gbs": memory_gbs}
        self._send("POST", self._path(service_id, "replicaSets", set_id, "resize"), body)

    def set_replica_environment(self, service_id: str, set_id: str, environment: Environment) -> None:
        """Say how much is at stake in a set."""
        path = self._path(service_id, "replicaSets", set_id, "setEnvironment")
        self._send("POST", path, {"environment": environment})

    def enable_replica_pooler(self, service_id: str, set_id: str) -> None:
        """Give a read replica set a pooler."""
        self._send("POST", self._path(service_id, "replicaSets", set_id, "enablePooler"))

    def disable_replica_pooler(self, service_id: str, set_id: str) -> None:
        """Take the pooler of a read replica set away."""
        self._send("POST", self._path(service_id, "replicaSets", set_id, "disablePooler"))

    def wait_ready(
        self, service_id: str, timeout_seconds: float = 1800.0, seen: Callable[[Service], None] | None = None
    ) -> Service:
        """Wait until a service is READY. Raises TimedOut, or WaitFailed with the reason; `seen` gets each look."""
        return self._wait(service_id, Status.READY, timeout_seconds, seen)

    def wait_paused(
        self, service_id: str, timeout_seconds: float = 1800.0, seen: Callable[[Service], None] | None = None
    ) -> Service:
        """Wait until a service is PAUSED. Raises as `wait_ready` does."""
        return self._wait(service_id, Status.PAUSED, timeout_seconds, seen)

    def wait_deleted(
        self, service_id: str, timeout_seconds: float = 1800.0, seen: Callable[[Service], None] | None = None
    ) -> None:
        """Wait until a service is gone. Raises as `wait_ready` does."""
        try:
            self._wait(service_id, Status.DELETED, timeout_seconds, seen)
        except ApiError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise

    def _wait(
        self, service_id: str, wanted: Status, timeout_seconds: float, seen: Callable[[Service], None] | None
    ) -> Service:
        begun = answered = time.monotonic()
        while True:
            try:
                service: Service | None = self.get_service(service_id)
                answered = time.monotonic()
            except Error as error:
                if not _is_passing(error) or time.monotonic() - answered > _TOLERATED_OUTAGE_SECONDS:
                    raise
                service = None
            if service is not None:
                if seen is not None:
                    seen(service)
                if _has_arrived(service, wanted):
                    return service
            elapsed = time.monotonic() - begun
            if elapsed >= timeout_seconds:
                raise _timed_out(service_id, wanted, timeout_seconds, service)
            time.sleep(min(max(elapsed / 10, _SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS, timeout_seconds))

    def _path(self, *parts: str) -> str:
        return "/".join(("/projects", quote(self.project_id, safe=""), "services", *(quote(p, safe="") for p in parts)))

    def _call(
        self,
        method: str,
        path: str,
        shape: type[_Answer],
        body: Mapping[str, object] | None = None,
        idempotency_key: str | None = None,
    ) -> _Answer:
        answer = self._send(method, path, body, idempotency_key)
        try:
            return msgspec.json.decode(answer.content, type=shape)
        except msgspec.DecodeError as error:
            raise ApiError(
                answer.status_code, "UNKNOWN_ANSWER", f"{self.base_url} answered in another shape.", str(error)
            ) from error

    def _send(
        self, method: str, path: str, body: Mapping[str, object] | None = None, idempotency_key: str | None = None
    ) -> httpx.Response:
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        try:
            answer = self._http.request(method, path, json=body, headers=headers)
        except httpx.TimeoutException as error:
            raise TimedOut("TIMED_OUT", f"{self.base_url} did not answer in time.", "Try again.") from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise Unavailable(
                "SERVER_UNREACHABLE",
                f"No Ramet answers at {self.base_url}.",
                f"Start one with 'ramet up', or check RAMET_BASE_URL. ({error})",
            ) from error
        if answer.is_error:
            raise _refusal(answer)
        return answer


def _checked_address(base_url: str) -> str:
    try:
        address = httpx.URL(base_url)
    except httpx.InvalidURL:
        address = httpx.URL("")
    if address.scheme not in ("http", "https") or not address.host:
        raise Invalid(
            "BAD_BASE_URL",
            f"{base_url[:200]!r} is no address of a Ramet.",
            "It looks like http://127.0.0.1:8080/public/api/v1.",
        )
    return base_url.rstrip("/")


def _query(values: Mapping[str, str | Sequence[str]]) -> str:
    return "?" + urlencode(values, doseq=True) if values else ""


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _has_arrived(service: Service, wanted: Status) -> bool:
    if service.status == wanted:
        return True
    if service.status not in _ON_THE_WAY[wanted]:
        reason = service.metadata.status_reason
        raise WaitFailed(
            "SERVICE_FAILED",
            f"Service {service.service_id} is {service.status} instead of {wanted}.",
            reason if isinstance(reason, str) else "",
        )
    return False


def _is_passing(error: Error) -> bool:
    """Tell whether the server may answer again soon: it is being restarted, or its store is busy."""
    return isinstance(error, Unavailable) or (isinstance(error, ApiError) and error.status in (500, 502, 503, 504))


def _timed_out(service_id: str, wanted: Status, timeout_seconds: float, service: Service | None) -> TimedOut:
    now = "not answering" if service is None else str(service.status)
    return TimedOut(
        "WAIT_TIMED_OUT",
        f"Service {service_id} is {now} after {timeout_seconds:g} s, and not {wanted} yet.",
        "It goes on; look again with 'ramet service get'.",
    )


def _refusal(answer: httpx.Response) -> ApiError:
    try:
        body = msgspec.json.decode(answer.content, type=ErrorBody)
    except msgspec.DecodeError:
        text = answer.text[:200].strip()
        return ApiError(answer.status_code, "UNKNOWN_ANSWER", f"The server answered {answer.status_code}.", text)
    return ApiError(answer.status_code, body.code, body.message, body.details)
