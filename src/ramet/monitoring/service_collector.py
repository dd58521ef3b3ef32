"""The metrics of services and read replica sets, from what the store knows of them: no server is asked for a scrape."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from ramet.control.metrics import CURRENT
from ramet.control.plane import Plane
from ramet.model.archive import span_of
from ramet.model.metrics import SERIES, Kind, Sample
from ramet.model.replica_set import ReplicaSet, replica_status
from ramet.model.service import Service, shown_status
from ramet.model.warm_forks import pool_of
from ramet.store import monitoring, replica_sets, services
from ramet.store.tables import service

MEANINGS = {
    "ramet_blocks_total": "Blocks that were read, by where they were found",
    "ramet_cache_hit_ratio": "Share of the blocks that were found in the cache",
    "ramet_connections": "Sessions of clients, by their state",
    "ramet_connections_limit": "max_connections",
    "ramet_cpu_seconds_total": "Seconds of CPU that the processes of the server used",
    "ramet_deadlocks_total": "Deadlocks",
    "ramet_memory_bytes": "Memory of the server's processes; shared memory counts once",
    "ramet_archive_lag_seconds": "Age of what the off-host archive has",
    "ramet_archive_verified_age_seconds": "Age of the newest time that a drill recovered from the off-host archive",
    "ramet_replay_lag_seconds": "How far a read replica is behind its service",
    "ramet_restore_verified_age_seconds": "Age of the newest time that a restore drill recovered, or of the service",
    "ramet_source_lag_bytes": "WAL by which a service is behind the database that it follows",
    "ramet_source_lag_seconds": "Seconds by which a service is behind the database that it follows",
    "ramet_storage_bytes": "Storage that the data directory takes",
    "ramet_temporary_bytes_total": "Bytes of temporary files",
    "ramet_transactions_total": "Transactions, by their outcome",
    "ramet_wal_bytes_total": "WAL that was written or replayed",
}

_RESTARTS_SINCE = timedelta(minutes=30)


@dataclass(frozen=True)
class _Known:
    """What the store knows of services at one time. `warm` are the forks that nobody has claimed."""

    now: datetime
    services: Sequence[Service]
    sets: Sequence[ReplicaSet]
    samples: Mapping[str, Sample]
    snapshots: Mapping[str, tuple[datetime | None, datetime]]
    warm: Sequence[Service]
    restarts: Mapping[str, int]


def service_metrics(plane: Plane, project_id: str | None) -> Iterable[Metric]:
    """Return the metrics of the services of a project, or of all. Raises Unavailable while the store is not reached."""
    known = _read(plane, project_id)
    yield from _rows(known)
    yield from _ages(known)
    yield _restarts(known)
    yield from _warm_forks(known)
    yield from _sampled(known)


def _read(plane: Plane, project_id: str | None) -> _Known:
    now = plane.clock()
    with plane.store.read() as tx:
        found = services.live_services(tx, *([] if project_id is None else [service.c.project_id == project_id]))
        sets = replica_sets.live_sets(tx, project_id=project_id)
        subjects = [*(each.id for each in found), *(each.id for each in sets)]
        samples = monitoring.newest_samples(tx, now - CURRENT, subjects)
        own = None if project_id is None else subjects
        times = monitoring.snapshot_times(tx, own)
        restarts = monitoring.restarts(tx, now - _RESTARTS_SINCE, own)
    warm = [each for each in found if each.unclaimed]
    return _Known(now, [each for each in found if not each.unclaimed], sets, samples, times, warm, restarts)


def _rows(known: _Known) -> Iterable[Metric]:
    info = _gauge(
        "ramet_service_info", "1; its labels describe a service", ("name", "environment", "type", "pg_major", "parent")
    )
    status = _gauge("ramet_service_status", "1, with the status of a service as a label", ("status",))
    warnings = _gauge("ramet_service_problem", "1 if a service has this problem, 0 if not", ("problem",))
    for each in known.services:
        ids = (each.id, each.project_id)
        parent = each.origin.service_id if each.origin else ""
        kind = (each.name, each.environment.value, each.service_type.value, str(each.pg_major), parent)
        info.add_metric((*ids, *kind), 1)
        status.add_metric((*ids, shown_status(each).value), 1)
        for problem, text in _problems(each).items():
            warnings.add_metric((*ids, problem), float(text is not None))
    sets = _gauge(
        "ramet_replica_set_status", "1, with the status of a read replica set as a label", ("replica_set", "status")
    )
    for one in known.sets:
        sets.add_metric((one.service_id, one.project_id, one.id, replica_status(one).value), 1)
    return info, status, warnings, sets


def _restarts(known: _Known) -> Metric:
    """Return how often servers were started again: that they were down for a moment, a scrape seldom sees."""
    found = _gauge("ramet_service_restarts", "How often a server was started again within 30 minutes, as it was down")
    for each in known.services:
        found.add_metric((each.id, each.project_id), known.restarts.get(each.id, 0))
    return found


def _warm_forks(known: _Known) -> Iterable[Metric]:
    wanted = _gauge("ramet_warm_forks_wanted", "How many forks a service keeps ready")
    found = _gauge("ramet_warm_forks", "Forks that nobody has claimed, by whether they are ready", ("state",))
    ready = Counter((each.origin.service_id, each.ready_at is not None) for each in known.warm if each.origin)
    keeping = {one for one, _ in ready}
    for each in known.services:
        pool = pool_of(each)
        if pool is not None:
            wanted.add_metric((each.id, each.project_id), pool.size)
        if pool is not None or each.id in keeping:
            for is_ready, state in ((True, "ready"), (False, "being_made")):
                found.add_metric((each.id, each.project_id, state), ready[each.id, is_ready])
    return wanted, found


def _problems(service: Service) -> Mapping[str, str | None]:
    return {
        "down": service.down_reason,
        "storage": service.storage_warning,
        "archiving": service.archive_delay,
        "archive": service.archive_problem,
        "drill": service.drill_failure,
        "archive_drill": service.archive_drill_failure,
    }


def _ages(known: _Known) -> Iterable[Metric]:
    """Return ages in seconds: alerts compare them without knowing the clock of this host."""
    meanings = {
        "ramet_restore_window_seconds": "How far back a service can be restored",
        "ramet_snapshot_age_seconds": "Age of the newest snapshot of a service",
        "ramet_drill_age_seconds": "Seconds since the last restore drill of a service ended",
        "ramet_archive_base_age_seconds": "Age of the newest base backup in the off-host archive",
    }
    found = {name: _gauge(name, meaning) for name, meaning in meanings.items()}
    for each in known.services:
        oldest, newest = known.snapshots.get(each.id, (None, None))
        archived_from = None if (held := span_of(each)) is None else held.earliest
        begins = min((at for at in (oldest, archived_from) if at is not None), default=None)
        times = (begins, newest, each.drilled_at, each.archive_base_at)
        for metric, at in zip(found.values(), times, strict=True):
            if at is not None:
                metric.add_metric((each.id, each.project_id), max(0.0, (known.now - at).total_seconds()))
    return found.values()


def _sampled(known: _Known) -> Iterable[Metric]:
    """Return what was measured last of each service and of each node of a set, by the names of the HTTP interface."""
    owners = {each.id: (each.id, each.project_id, "") for each in known.services}
    owners |= {one.id: (one.service_id, one.project_id, one.id) for one in known.sets}
    values: dict[str, list[tuple[dict[str, str], float]]] = defaultdict(list)
    for subject, owner in owners.items():
        sample = known.samples.get(subject)
        for key, value in (sample.values if sample else {}).items():
            name, *labels = key.split(";")
            own = dict(zip(("service_id", "project_id", "replica_set"), owner, strict=True))
            values[name].append((own | dict(label.split("=", 1) for label in labels), value))
    return [_family(name, points) for name, points in values.items() if name in SERIES]


def _family(name: str, points: Sequence[tuple[dict[str, str], float]]) -> Metric:
    kind = CounterMetricFamily if SERIES[name] is Kind.COUNTER else GaugeMetricFamily
    family = kind(name, MEANINGS[name])
    for labels, value in points:
        family.add_sample(name, {label: text for label, text in labels.items() if text}, value)
    return family


def _gauge(name: str, meaning: str, labels: Sequence[str] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, meaning, labels=("service_id", "project_id", *labels))
