"""Metrics of services."""

from collections.abc import Sequence

from litestar import Response
from litestar.params import JSONBody

from ramet.api.responses import OF_SERVICE, ServicePath, answer, change, read, router_of
from ramet.api.schemas.metrics import MetricDataPoint, MetricLabelFilter, MetricSeries, MetricsSeriesRequest
from ramet.control import metrics
from ramet.control.recording import UNRECORDED
from ramet.errors import Invalid
from ramet.model.metrics import Series
from ramet.model.timestamps import parse_timestamp


@read("/available-series", operation_id="getServiceMetricsAvailableSeries", summary="List the series of a service")
def list_series(at: ServicePath) -> Response[list[str]]:
    """The names of the series. Those that end in _total are counters, the others gauges."""
    return answer(metrics.available_series(*at))


@change("/series", operation_id="getServiceMetricsSeries", summary="Read a series of a service", opt=UNRECORDED)
def read_series(at: ServicePath, data: JSONBody[MetricsSeriesRequest]) -> Response[list[MetricSeries]]:
    """One series for each combination of labels, in buckets; the value of a bucket without measurements is null."""
    found = metrics.read_series(
        *at,
        data.name,
        parse_timestamp("from", data.begin),
        parse_timestamp("to", data.end),
        data.bucket_seconds,
        data.fn,
        _labels(data.filters or []),
    )
    return answer([_shape(series) for series in found])


def _labels(filters: Sequence[MetricLabelFilter]) -> dict[str, str]:
    """Return the labels that must match. Raises Invalid."""
    found: dict[str, str] = {}
    for one in filters:
        for part, text in (("key", one.key), ("value", one.value)):
            if not text.strip():
                raise Invalid(
                    "INVALID_FILTER", f"filters contains an empty {part}", "Send the name and the value of a label."
                )
        if found.setdefault(one.key, one.value) != one.value:
            raise Invalid(
                "INVALID_FILTER",
                f"filters contains {one.key[:40]!r} twice, with different values",
                "Send one request for each.",
            )
    return found


def _shape(series: Series) -> MetricSeries:
    return MetricSeries(series.labels, [MetricDataPoint(at, value) for at, value in series.points])


metrics_router = router_of(__name__, "Observation", f"{OF_SERVICE}/metrics")
