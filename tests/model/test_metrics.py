"""Samples become series: buckets, functions, growth of counters, gaps and labels."""

from datetime import UTC, datetime, timedelta

import pytest

from ramet.errors import Invalid
from ramet.model.metrics import MOST_POINTS, Function, Sample, key_of, plan, series, usage

BEGIN = datetime(2026, 1, 15, 10, 0, 0, tzinfo=UTC)


def samples(name: str, *values: float | None, every_seconds: float = 30, **labels: str) -> list[Sample]:
    key = key_of(name, **labels)
    return [
        Sample(BEGIN + timedelta(seconds=every_seconds * n), {} if value is None else {key: value})
        for n, value in enumerate(values)
    ]


def values(taken: list[Sample], name: str, function: Function | None = None, minutes: int = 2) -> list[float | None]:
    query = plan(name, BEGIN, BEGIN + timedelta(minutes=minutes), 60, function, {})
    (found,) = series(taken, query)
    assert [at for at, _ in found.points] == [BEGIN + timedelta(minutes=n) for n in range(minutes)]
    return [value for _, value in found.points]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (None, [2.0, 15.0]),
        (Function.AVG, [2.0, 15.0]),
        (Function.SUM, [4.0, 30.0]),
        (Function.MIN, [1.0, 10.0]),
        (Function.MAX, [3.0, 20.0]),
        (Function.COUNT, [2.0, 2.0]),
        (Function.P50, [1.0, 10.0]),
        (Function.P90, [3.0, 20.0]),
        (Function.P99, [3.0, 20.0]),
        (Function.LAST, [3.0, 20.0]),
    ],
)
def test_a_gauges_values_become_one_for_each_bucket(function: Function | None, expected: list[float]) -> None:
    assert values(samples("ramet_memory_bytes", 1, 3, 10, 20), "ramet_memory_bytes", function) == expected


def test_a_counters_growth_is_a_rate_or_an_increase_also_over_bucket_borders_and_restarts() -> None:
    taken = samples("ramet_wal_bytes_total", 1000, 1300, 1600, 60)
    assert values(taken, "ramet_wal_bytes_total") == [10.0, 6.0]
    assert values(taken, "ramet_wal_bytes_total", Function.INCREASE) == [300.0, 360.0]


def test_a_bucket_without_samples_is_a_gap() -> None:
    taken = samples("ramet_memory_bytes", 5, None, None, None, None, 7)
    assert values(taken, "ramet_memory_bytes", minutes=4) == [5.0, None, 7.0, None]


def test_each_combination_of_labels_is_a_series_and_filters_choose() -> None:
    both = [
        Sample(BEGIN, {key_of("ramet_connections", state="idle"): 3, key_of("ramet_connections", state="active"): 1})
    ]
    query = plan("ramet_connections", BEGIN, BEGIN + timedelta(minutes=1), None, None, {})
    assert [one.labels for one in series(both, query, role="primary")] == [
        {"role": "primary", "state": "active"},
        {"role": "primary", "state": "idle"},
    ]
    chosen = plan("ramet_connections", BEGIN, BEGIN + timedelta(minutes=1), None, None, {"state": "idle"})
    assert [one.points[0][1] for one in series(both, chosen, role="primary")] == [3]
    no_samples = plan("ramet_connections", BEGIN, BEGIN + timedelta(minutes=1), None, None, {"role": "replica"})
    assert series(both, no_samples, role="primary") == []


@pytest.mark.parametrize(("window", "bucket"), [(1, 60), (2, 3600), (24 * 31, 86400)])
def test_the_usual_bucket_follows_the_window(window: int, bucket: int) -> None:
    query = plan("ramet_memory_bytes", BEGIN, BEGIN + timedelta(hours=window), None, None, {})
    assert query.bucket_seconds == bucket


@pytest.mark.parametrize(
    ("name", "minutes", "bucket", "function"),
    [
        ("unknown", 5, None, None),
        ("ramet_memory_bytes", 0, None, None),
        ("ramet_memory_bytes", -1, None, None),
        ("ramet_memory_bytes", 5, 59, None),
        ("ramet_memory_bytes", 60 * 24 * 365, 60, None),
        ("ramet_memory_bytes", 5, None, Function.RATE),
    ],
)
def test_a_query_for_metrics_that_cannot_be_answered_is_refused(
    name: str, minutes: int, bucket: int | None, function: Function | None
) -> None:
    with pytest.raises(Invalid) as refused:
        plan(name, BEGIN, BEGIN + timedelta(minutes=minutes), bucket, function, {})
    assert refused.value.code == "INVALID_REQUEST"


def test_usage_is_what_the_last_two_samples_tell() -> None:
    def taken(seconds: int, cpu: float) -> Sample:
        measured = {"ramet_cpu_seconds_total": cpu, "ramet_memory_bytes": 12_400_000, "ramet_storage_bytes": 3e7}
        return Sample(BEGIN + timedelta(seconds=seconds), measured)

    found = usage([taken(0, 1.0), taken(30, 16.0)])
    assert (found.cpu_millis, found.memory_mb, found.storage_mb) == (500, 12, 30)
    alone = usage([taken(0, 1.0)])
    assert alone.cpu_millis is None
    assert usage([taken(3600, 1.0), taken(30, 16.0)]).cpu_millis is None  # the clock was set back


def test_a_query_may_have_the_most_points_and_not_one_more() -> None:
    minutes = timedelta(minutes=MOST_POINTS)
    assert plan("ramet_cpu_seconds_total", BEGIN, BEGIN + minutes, 60, None, {}).bucket_seconds == 60
    with pytest.raises(Invalid, match=str(MOST_POINTS)):
        plan("ramet_cpu_seconds_total", BEGIN, BEGIN + minutes + timedelta(seconds=60), 60, None, {})
