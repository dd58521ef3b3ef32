"""What a scrape reads of the whole installation's work: the queue of operations, leases, threads, and the store."""

import time
from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from ramet.operations.worker import Worker
from ramet.store import monitoring
from ramet.store.database import Store
from ramet.store.monitoring import Queued


def work_metrics(store: Store, worker: Worker) -> Iterable[Metric]:
    """Return the metrics of the queue and of the store. Raises Unavailable while that cannot be reached."""
    begun = time.perf_counter()
    with store.read() as tx:
        queued = monitoring.queue(tx)
    seconds = time.perf_counter() - begun
    yield _gauge("ramet_store_read_seconds", "Seconds that a read of the queue took in the store", seconds)
    threads, busy = worker.count_threads()
    yield _gauge("ramet_worker_threads", "Threads of this process that run operations", threads)
    yield _gauge("ramet_worker_threads_busy", "Threads of this process that run an operation now", busy)
    yield from _queue_metrics(queued)


def store_up(is_up: bool) -> Metric:
    """Return whether the store answered this scrape."""
    return _gauge("ramet_store_up", "1 if the store answered this scrape, 0 if not", float(is_up))


def _queue_metrics(queued: list[Queued]) -> Iterable[Metric]:
    operations = GaugeMetricFamily(
        "ramet_operations",
        "Operations under way in the whole installation, by procedure, status, and whether a worker runs them",
        labels=("procedure", "status", "state"),
    )
    for each in queued:
        for state, count in (("waiting", each.waiting), ("leased", each.leased)):
            operations.add_metric((each.procedure, each.status, state), count)
    yield operations
    late = max((each.late_seconds for each in queued), default=0.0)
    yield _gauge("ramet_operations_late_seconds", "For how long the operation that is due longest waits", late)
    yield _gauge("ramet_leases", "Operations that a worker runs", sum(each.leased for each in queued))
    expired = sum(each.expired for each in queued)
    yield _gauge("ramet_leases_expired", "Leases that were not renewed: their worker was lost", expired)


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)
