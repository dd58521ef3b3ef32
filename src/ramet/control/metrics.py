"""Metrics: samples that Ramet takes of each service and read replica set, and what clients read of them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from ramet.backends.interface.backend import Backend
from ramet.backends.interface.values import Server
from ramet.control.plane import Plane
from ramet.control.subjects import find_subject, servers_of
from ramet.model.metric_names import NOT_MEASURED, published_names, resolved
from ramet.model.metrics import OF_REPLICAS, SERIES, Function, Sample, Series, Usage, key_of, plan, series, usage
from ramet.model.metrics import with_label as labelled
from ramet.model.service import Service
from ramet.store import metrics
from ramet.store.database import Store

ROUND_SECONDS = 1.0
FORGET_SECONDS = 3600.0
_SAMPLE = timedelta(seconds=30)
_AT_WORK_SECONDS = 0.2
_CURRENT = timedelta(minutes=2)
_FAR_APART = timedelta(seconds=90)
_PARTS = 250
_HIT, _READ, _RATIO = (
    key_of("ramet_blocks_total", source="cache"),
    key_of("ramet_blocks_total", source="disk"),
    key_of("ramet_cache_hit_ratio"),
)


@dataclass(frozen=True)
class Growth:
    """By how much a counter grew between two samples."""

    begins_at: datetime
    ends_at: datetime
    size_bytes: float


@dataclass
class Metering:
    """The duties that take samples and forget old ones."""

    store: Store
    backend: Backend
    clock: Callable[[], datetime]
    retention_clock: Callable[[], datetime] | None = None
    _blocks: dict[str, tuple[float, float]] = field(default_factory=dict)

    def sample(self) -> None:
        """Measure what serves and was not measured for half a minute, for a fifth of a second at most.

        What is left comes first in the next round: with very many services samples lie further apart, and nothing else
        on the host waits for them. What does not answer has its turn again with all others, half a minute later.
        """
        begun, now = time.monotonic(), self.clock()
        with self.store.read() as tx:
            due = metrics.due_subjects(tx, now, _SAMPLE)
        taken: dict[str, Sample] = {}
        for subject in due:
            with self.store.read() as tx:
                found = servers_of(tx, subject)
            taken[subject] = Sample(self.clock(), self._measured(found))
            if time.monotonic() - begun > _AT_WORK_SECONDS:
                break
        if taken:
            self._record(taken, now)

    def _measured(self, found: list[Server]) -> Mapping[str, float]:
        """Return what is measured of servers, with the number of its node on each value of a replica set's."""
        values: dict[str, float] = {}
        for number, server in enumerate(found):
            measured = self.backend.host.measure(server)
            if measured is None:
                self._blocks.pop(server.service_id, None)
                continue
            whole = self._with_ratio(server.service_id, measured)
            is_node = server.primary is not None
            values |= {labelled(key, "node", str(number)) if is_node else key: n for key, n in whole.items()}
        return values

    def _record(self, taken: Mapping[str, Sample], now: datetime) -> None:
        usages: dict[str, Usage] = {}
        with self.store.read() as tx:
            for subject, sample in taken.items():
                before = metrics.last_sample(tx, subject, now - _CURRENT)
                usages[subject] = usage([sample] if before is None else [before, sample]) if sample.values else Usage()
        with self.store.write(durable=False, patient=True) as tx:
            metrics.insert_samples(tx, {subject: sample for subject, sample in taken.items() if sample.values})
            metrics.put_usage(tx, usages, now)

    def forget(self) -> None:
        """Keep the samples within bounds."""
        self._blocks.clear()  # of what is gone too; the next sample begins anew
        with self.store.write(patient=True) as tx:
            metrics.forget_old(tx, (self.retention_clock or self.clock)())

    def _with_ratio(self, service_id: str, measured: Mapping[str, float]) -> Mapping[str, float]:
        """Return the values with the share of blocks that were found in the cache since the sample before."""
        if _HIT not in measured or _READ not in measured:
            return measured
        hit_before, read_before = self._blocks.get(service_id, (measured[_HIT], measured[_READ]))
        self._blocks[service_id] = (measured[_HIT], measured[_READ])
        hit, read = measured[_HIT] - hit_before, measured[_READ] - read_before
        return {**measured, _RATIO: hit / (hit + read)} if hit >= 0 and read >= 0 and hit + read > 0 else measured


def available_series(plane: Plane, project_id: str, subject: str) -> list[str]:
    """Return the names of all series of a service or of a read replica set, the published aliases among them."""
    found, _ = find_subject(plane, project_id, subject)
    names = set(SERIES) if _is_replica(found) else SERIES.keys() - OF_REPLICAS
    return sorted([*names, *published_names(names)])


def read_series(
    plane: Plane,
    project_id: str,
    subject: str,
    name: str,
    begin: datetime,
    end: datetime,
    bucket_seconds: int | None,
    function: Function | None,
    labels: Mapping[str, str],
) -> list[Series]:
    """Return the series that are asked for, of a service or of a read replica set. Raises NotFound, Invalid."""
    alias = resolved(name, function)
    if name in NOT_MEASURED:
        find_subject(plane, project_id, subject)
        return []
    query = plan(alias.name, begin, end, bucket_seconds, function, labels)
    found, _ = find_subject(plane, project_id, subject)
    with plane.store.read() as tx:
        samples = metrics.list_samples(tx, found.id, begin - 2 * _SAMPLE, end)
    measured = series(samples, query, role="replica" if _is_replica(found) else "primary")
    return measured if alias.factor == 1.0 else [one.scaled(alias.factor) for one in measured]


def wal_growth(plane: Plane, service_id: str, begin: datetime, end: datetime) -> list[Growth]:
    """Return how much WAL a service wrote between its samples, oldest first, in so many parts as a picture shows.

    Samples that lie far apart, for the server was not running or nobody measured it, tell nothing of the time between.
    """
    part = max(_SAMPLE, (end - begin) / _PARTS)
    with plane.store.read() as tx:
        values = metrics.list_values(tx, service_id, key_of("ramet_wal_bytes_total"), begin - part, end, part)
    return [
        Growth(before, at, value - earlier if value >= earlier else value)
        for (before, earlier), (at, value) in pairwise(values)
        if at - before <= max(2 * part, _FAR_APART)
    ]


def usage_now(plane: Plane, subject: str) -> Usage | None:
    """Return what a service or a read replica set uses now, as far as that is known."""
    with plane.store.read() as tx:
        return metrics.usage_of(tx, subject, plane.clock() - _CURRENT)


def usages_now(plane: Plane, project_id: str) -> Mapping[str, Usage | None]:
    """Return what the services of a project use now, in one query."""
    with plane.store.read() as tx:
        return metrics.usage_in_project(tx, project_id, plane.clock() - _CURRENT)


def _is_replica(service: Service) -> bool:
    return service.origin is not None and service.origin.is_standby
