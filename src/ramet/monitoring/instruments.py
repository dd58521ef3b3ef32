"""What a process counts and times of its own work, in a registry of its own: requests, operations, its event loop."""

import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
)

from ramet.model.operation_record import Event
from ramet.model.procedures import ProcedureName
from ramet.model.status import OperationStatus
from ramet.store.journal import Journal
from ramet.store.operations import Operation

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_STEP_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0)
_LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_ENDED = {OperationStatus.SUCCEEDED: "succeeded", OperationStatus.FAILED: "failed"}


class Instruments:
    """The instruments of one process. Safe to use from several threads."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        Info("ramet_build", "The version of Ramet", registry=self.registry).info({"version": version})
        self._requests = self._histogram(
            "ramet_http_request_seconds",
            "Seconds until the response to a request begins",
            ("route", "method", "status"),
            _REQUEST_BUCKETS,
        )
        self._in_progress = Gauge(
            "ramet_http_requests_in_progress", "Requests whose response has not ended", registry=self.registry
        )
        self._steps = self._histogram(
            "ramet_operation_step_seconds",
            "Seconds from the beginning of a step of an operation to this outcome, as recorded in its history",
            ("procedure", "step", "outcome"),
            _STEP_BUCKETS,
        )
        self._operations = self._histogram(
            "ramet_operation_seconds",
            "Seconds from the submission of an operation to its end",
            ("procedure", "outcome"),
            _STEP_BUCKETS,
        )
        for procedure in ProcedureName:  # `increase` does not see the first failure of a series that begins with it
            self._operations.labels(procedure, _ENDED[OperationStatus.FAILED])
        self._fork_parts = self._histogram(
            "ramet_fork_part_seconds",
            "Seconds that each step of a fork took, by what was forked",
            ("strategy", "part"),
            _STEP_BUCKETS,
        )
        self._loop_lag = self._histogram(
            "ramet_event_loop_lag_seconds", "By how much the event loop of HTTP was late", (), _LAG_BUCKETS
        )
        self._claims = Counter(
            "ramet_warm_forks_claimed", "Warm forks that were given to clients", registry=self.registry
        )
        self.scrapes_failed = Counter(
            "ramet_scrape_errors", "Scrapes in which the store could not be read", registry=self.registry
        )

    def count_claims(self, _tx: sa.Connection, journal: Journal) -> None:
        """Count the warm forks that a transaction gives to clients, when it is committed."""
        claims = [columns for _, columns in journal.changed if columns.get("unclaimed") is False]
        journal.after_commit.extend([self._claims.inc] * len(claims))

    def begin_request(self, scope: Any) -> Callable[[int], None]:
        """Observe a request; call what is returned with the status when its response begins, and with 0 at its end."""
        begun = time.perf_counter()
        self._in_progress.inc()

        def observe(status: int) -> None:
            if status == 0:
                self._in_progress.dec()
                return
            method = scope["method"] if scope["method"] in _METHODS else "other"
            route = scope.get("path_template") or "unmatched"
            waited = scope.get("state", {}).get("waited_seconds", 0.0)  # because the client wanted to
            self._requests.labels(route, method, status).observe(time.perf_counter() - begun - waited)

        return observe

    def observe_step(self, before: Operation, after: Operation, event: Event) -> None:
        """Observe the recorded outcome of a step, and the end of its operation if it was the last one."""
        self._steps.labels(before.procedure, before.step, event.outcome).observe(event.seconds)
        if before.procedure == ProcedureName.FORK and event.outcome == "DONE":
            self._fork_parts.labels(str(before.state.get("strategy", "unknown")), before.step).observe(event.seconds)
        if after.status in _ENDED:
            seconds = max(0.0, (event.at - before.created_at).total_seconds())
            self._operations.labels(before.procedure, _ENDED[after.status]).observe(seconds)

    def observe_loop(self, late_seconds: float) -> None:
        """Observe by how much a timer of the event loop was late."""
        self._loop_lag.observe(late_seconds)

    def _histogram(self, name: str, meaning: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, meaning, labels, buckets=buckets, registry=self.registry)
