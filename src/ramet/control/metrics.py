"""What clients read of the metrics of a service or a read replica set. `duties.sampling` takes the samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from ramet.control.plane import Plane
from ramet.control.subjects import find_subject
from ramet.model.metric_names import NOT_MEASURED, published_names, resolved
from ramet.model.metrics import OF_REPLICAS, SERIES, Function, Series, Usage, key_of, plan, series
from ramet.model.service import Service
from ramet.store import metrics

SAMPLE_EVERY = timedelta(seconds=30)
CURRENT = timedelta(minutes=2)
_FAR_APART = timedelta(seconds=90)
_PARTS = 250


@dataclass(frozen=True)
class Growth:
    """By how much a counter grew between two samples."""

    begins_at: datetime
    ends_at: datetime
    size_bytes: float


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
        samples = metrics.list_samples(tx, found.id, begin - 2 * SAMPLE_EVERY, end)
    measured = series(samples, query, role="replica" if _is_replica(found) else "primary")
    return measured if alias.factor == 1.0 else [one.scaled(alias.factor) for one in measured]


def read_together(
    plane: Plane, subject: str, names: Sequence[str], begin: datetime, end: datetime, bucket_seconds: int
) -> list[list[Series]]:
    """Return several series of a service, with their usual functions, from one reading of its samples.

    Where a bucket has many samples, one in each tenth of it is read: what a counter grew by is not changed by that.
    """
    part = timedelta(seconds=bucket_seconds / 10)
    queries = [plan(name, begin, end, bucket_seconds, None, {}) for name in names]
    with plane.store.read() as tx:
        earlier = begin - 2 * max(part, SAMPLE_EVERY)
        samples = metrics.list_samples(tx, subject, earlier, end, part if part > SAMPLE_EVERY else None)
    return [series(samples, query) for query in queries]


def wal_growth(plane: Plane, service_id: str, begin: datetime, end: datetime) -> list[Growth]:
    """Return how much WAL a service wrote between its samples, oldest first, in so many parts as a picture shows.

    Two samples far apart say nothing of the time between them: the server or Ramet was not running.
    """
    part = max(SAMPLE_EVERY, (end - begin) / _PARTS)
    with plane.store.read() as tx:
        values = metrics.list_values(tx, service_id, key_of("ramet_wal_bytes_total"), begin - part, end, part)
    return [
        Growth(before, at, max(0.0, value - earlier))
        for (before, earlier), (at, value) in pairwise(values)
        if at - before <= max(2 * part, _FAR_APART)
    ]


def usage_now(plane: Plane, subject: str) -> Usage | None:
    """Return what a service or a read replica set uses now, as far as that is known."""
    with plane.store.read() as tx:
        return metrics.usage_of(tx, subject, plane.clock() - CURRENT)


def usages_now(plane: Plane, project_id: str) -> Mapping[str, Usage | None]:
    """Return what the services of a project use now, in one query."""
    with plane.store.read() as tx:
        return metrics.usage_in_project(tx, project_id, plane.clock() - CURRENT)


def own_space(plane: Plane, project_id: str) -> Mapping[str, int | None]:
    """Return the bytes that each service of a project occupies alone; None where the host cannot tell.

    Services that were not measured yet are missing.
    """
    with plane.store.read() as tx:
        return metrics.own_space_in_project(tx, project_id)


def _is_replica(service: Service) -> bool:
    return service.origin is not None and service.origin.is_standby
