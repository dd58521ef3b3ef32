"""What is measured of a service, and how samples become series: pure functions over them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from msgspec import Struct

from ramet.errors import Invalid
from ramet.model.timestamps import rfc3339

MOST_POINTS = 11_000
SHORTEST_BUCKET_SECONDS = 60
_LONGEST_BUCKET_SECONDS = 10**9
_EARLIEST = datetime.fromtimestamp(0, UTC)
_HOUR_SECONDS = 3600
_DAY_SECONDS = 86400


class Kind(StrEnum):
    """A gauge goes up and down; a counter only grows, but that of CPU starts from zero when its server restarts."""

    GAUGE = "gauge"
    COUNTER = "counter"


SERIES = {
    "ramet_blocks_total": Kind.COUNTER,
    "ramet_cache_hit_ratio": Kind.GAUGE,
    "ramet_connections": Kind.GAUGE,
    "ramet_connections_limit": Kind.GAUGE,
    "ramet_cpu_seconds_total": Kind.COUNTER,
    "ramet_deadlocks_total": Kind.COUNTER,
    "ramet_memory_bytes": Kind.GAUGE,
    "ramet_archive_lag_seconds": Kind.GAUGE,
    "ramet_archive_verified_age_seconds": Kind.GAUGE,
    "ramet_replay_lag_seconds": Kind.GAUGE,
    "ramet_restore_verified_age_seconds": Kind.GAUGE,
    "ramet_source_lag_bytes": Kind.GAUGE,
    "ramet_source_lag_seconds": Kind.GAUGE,
    "ramet_storage_bytes": Kind.GAUGE,
    "ramet_temporary_bytes_total": Kind.COUNTER,
    "ramet_transactions_total": Kind.COUNTER,
    "ramet_wal_bytes_total": Kind.COUNTER,
}


TIMELINE = "timeline"
"""The key of the timeline of a server in a sample; it is no series."""

OF_REPLICAS = frozenset(("ramet_replay_lag_seconds",))
"""Series that only read replicas have."""


class Function(StrEnum):
    """How the values of a bucket become one."""

    RATE = "RATE"
    INCREASE = "INCREASE"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"
    COUNT = "COUNT"
    P50 = "P50"
    P90 = "P90"
    P99 = "P99"
    LAST = "LAST"


_OFFSET_OF = "offset of "
_WAL = "ramet_wal_bytes_total"
_OF_DATABASES = (
    "ramet_blocks_total",
    "ramet_deadlocks_total",
    "ramet_temporary_bytes_total",
    "ramet_transactions_total",
)
_CONTINUED = frozenset((*_OF_DATABASES, _WAL))


@dataclass(frozen=True)
class Sample:
    """What was measured at one time; `values` has a key for each series and its labels, see `key_of`."""

    at: datetime
    values: Mapping[str, float]


@dataclass(frozen=True)
class SeriesQuery:
    """Which series, from `begin` to before `end`, in buckets of whole seconds, with all these labels."""

    name: str
    begin: datetime
    end: datetime
    bucket_seconds: int
    function: Function
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Series:
    """The points of one combination of labels; None marks a bucket without samples."""

    labels: dict[str, str]
    points: list[tuple[datetime, float | None]]

    def scaled(self, factor: float) -> "Series":
        """Return the series in another unit."""
        return Series(self.labels, [(at, None if value is None else value * factor) for at, value in self.points])


def key_of(name: str, **labels: str) -> str:
    """Return the key of a value in a sample: 'name' or 'name;label=value;…', labels in order."""
    return ";".join([name, *(f"{label}={labels[label]}" for label in sorted(labels))])


def with_label(key: str, label: str, value: str) -> str:
    """Return a key with one more label."""
    name, *labels = key.split(";")
    return ";".join([name, *sorted([*labels, f"{label}={value}"])])


def is_continued(key: str) -> bool:
    """Tell whether a value is a counter of which `continued` makes one that never falls."""
    return key.split(";")[0] in _CONTINUED


def continued(measured: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """Return what was measured of a server, with counters that go on from those of an earlier sample.

    The sums over all databases fall when one is dropped, and the LSN is another one when other data, which is on
    another timeline, takes the place of the server's: neither has grown then. By how much a counter is ahead of what
    was measured since is kept beside it, as another process may take the next sample.
    """
    same_data = all(before.get(key) == value for key, value in measured.items() if key.split(";")[0] == TIMELINE)
    found = dict(measured)
    for key in filter(is_continued, measured):
        value, offset = measured[key], before.get(_OFFSET_OF + key, 0.0)
        is_other = key.split(";")[0] == _WAL and not same_data
        if key in before and (is_other or value + offset < before[key]):
            offset = before[key] - value
        if offset:
            found |= {key: value + offset, _OFFSET_OF + key: offset}
    return found


def plan(
    name: str,
    begin: datetime,
    end: datetime,
    bucket_seconds: int | None,
    function: Function | None,
    labels: Mapping[str, str],
) -> SeriesQuery:
    """Return a checked query with what was left out filled in. Raises Invalid."""
    kind = SERIES.get(name)
    if kind is None:
        raise Invalid("INVALID_REQUEST", f"There is no series {name[:64]!r}", f"There are {', '.join(SERIES)}.")
    if begin >= end:
        raise Invalid(
            "INVALID_REQUEST",
            f"from must be before to (got {begin.isoformat()} and {end.isoformat()})",
            "Send an earlier from.",
        )
    if begin < _EARLIEST:
        wrong = f"from must not be before {rfc3339(_EARLIEST)} (got {rfc3339(begin)})"
        raise Invalid("INVALID_REQUEST", wrong, "Send a later from.")
    bucket_seconds = _usual_bucket(end - begin) if bucket_seconds is None else bucket_seconds
    if not SHORTEST_BUCKET_SECONDS <= bucket_seconds <= _LONGEST_BUCKET_SECONDS:
        bounds = f"between {SHORTEST_BUCKET_SECONDS} and {_LONGEST_BUCKET_SECONDS}"
        raise Invalid("INVALID_REQUEST", f"bucket_seconds must be {bounds} (got {bucket_seconds!r:.20})")
    points = (end - begin).total_seconds() / bucket_seconds
    if points > MOST_POINTS:
        message = f"bucket_seconds {bucket_seconds} makes {points:.0f} points, and {MOST_POINTS} is the most"
        raise Invalid("INVALID_REQUEST", message, "Send longer buckets.")
    usual = Function.RATE if kind is Kind.COUNTER else Function.AVG
    if function in (Function.RATE, Function.INCREASE) and kind is Kind.GAUGE:
        raise Invalid("INVALID_REQUEST", f"fn {function} is for counters, and {name} is a gauge", "Send fn AVG.")
    return SeriesQuery(name, begin, end, bucket_seconds, function or usual, labels)


def _usual_bucket(window: timedelta) -> int:
    if window <= timedelta(hours=1):
        return SHORTEST_BUCKET_SECONDS
    return _HOUR_SECONDS if window <= timedelta(days=30) else _DAY_SECONDS


def series(samples: Sequence[Sample], query: SeriesQuery, **common: str) -> list[Series]:
    """Return a series for each combination of labels among `samples`, oldest first; `common` labels are on all.

    The samples may begin before the query does: a counter's growth within the first bucket is measured from there.
    """
    found = []
    for key in sorted({key for sample in samples for key in sample.values if key.split(";")[0] == query.name}):
        labels = common | dict(part.split("=", 1) for part in key.split(";")[1:])
        if all(labels.get(label) == value for label, value in query.labels.items()):
            values = [(sample.at, sample.values[key]) for sample in samples if key in sample.values]
            found.append(Series(labels, _points(values, query)))
    return found


def _points(values: list[tuple[datetime, float]], query: SeriesQuery) -> list[tuple[datetime, float | None]]:
    grown = query.function in (Function.RATE, Function.INCREASE)
    buckets: dict[int, list[tuple[float, float]]] = {}
    for at, *measured in _growth(values) if grown else [(at, 0.0, value) for at, value in values]:
        if query.begin <= at < query.end:
            buckets.setdefault(_bucket(at, query), []).append((measured[0], measured[1]))
    first, last = _bucket(query.begin, query), _bucket(query.end - timedelta(microseconds=1), query)
    step = query.bucket_seconds
    return [
        (datetime.fromtimestamp(n * step, UTC), _value(buckets.get(n), query.function)) for n in range(first, last + 1)
    ]


def _growth(values: list[tuple[datetime, float]]) -> list[tuple[datetime, float, float]]:
    """Return the time of each value but the first, the seconds since the one before, and the growth since then."""
    return [
        (at, (at - before).total_seconds(), value - earlier if value >= earlier else value)
        for (before, earlier), (at, value) in pairwise(values)
    ]


def _bucket(at: datetime, query: SeriesQuery) -> int:
    return int(at.timestamp() // query.bucket_seconds)


def _value(measured: list[tuple[float, float]] | None, function: Function) -> float | None:
    if not measured:
        return None
    values = [value for _seconds, value in measured]
    if function is Function.RATE:
        seconds = sum(seconds for seconds, _value in measured)
        return sum(values) / seconds if seconds else None
    return _FUNCTIONS[function](values)


def _percentile(share: float) -> Callable[[list[float]], float]:
    """Return the nearest-rank percentile: a value that was measured."""
    return lambda values: sorted(values)[math.ceil(share * len(values)) - 1]


_FUNCTIONS: Mapping[Function, Callable[[list[float]], float]] = {
    Function.INCREASE: sum,
    Function.SUM: sum,
    Function.AVG: lambda values: sum(values) / len(values),
    Function.MIN: min,
    Function.MAX: max,
    Function.COUNT: lambda values: float(len(values)),
    Function.P50: _percentile(0.5),
    Function.P90: _percentile(0.9),
    Function.P99: _percentile(0.99),
    Function.LAST: lambda values: values[-1],
}


class Usage(Struct, frozen=True, gc=False):
    """What a service uses now; None where that is not known. Of `own_bytes` no block is shared with another service."""

    cpu_millis: int | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    own_bytes: int | None = None


def usage(samples: Sequence[Sample]) -> Usage:
    """Return what the last samples tell, oldest first; there is at least one."""
    totals = [(sample.at, _total(sample, "ramet_cpu_seconds_total")) for sample in samples[-2:]]
    cpu = _growth([(at, total) for at, total in totals if total is not None])
    cpu_millis = round(1000 * cpu[0][2] / cpu[0][1]) if cpu and cpu[0][1] > 0 else None  # the clock may be set back
    memory, storage = (_total(samples[-1], name) for name in ("ramet_memory_bytes", "ramet_storage_bytes"))
    return Usage(cpu_millis, _megabytes(memory), _megabytes(storage))


def _total(sample: Sample, name: str) -> float | None:
    values = [value for key, value in sample.values.items() if key.split(";")[0] == name]
    return sum(values) if values else None


def _megabytes(size_bytes: float | None) -> int | None:
    return None if size_bytes is None else round(size_bytes / 1_000_000)
