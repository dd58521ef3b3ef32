"""The schemas of a service's metrics."""

from typing import Annotated

from msgspec import Meta, Struct, field

from ramet.api.schemas.shared import Body, Timestamp
from ramet.model.metrics import SERIES, Function

SeriesName = Annotated[
    str, Meta(description="One of the series that available-series lists.", examples=[next(iter(SERIES))])
]
Bound = Annotated[
    str,
    Meta(
        description="RFC 3339 with an offset, for example 2026-01-15T10:30:00Z.",
        extra_json_schema={"format": "date-time"},
    ),
]
BucketSeconds = Annotated[
    int,
    Meta(
        description="An integer from 60 to 1000000000; by default 60 up to an hour, 3600 up to 30 days, 86400 beyond.",
        extra_json_schema={"minimum": 60, "maximum": 1_000_000_000},
    ),
]
FunctionName = Annotated[
    Function,
    Meta(description=f"One of {', '.join(Function)}; by default AVG for gauges and RATE for counters."),
]


class MetricLabelFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """A label that a series must have."""

    key: Annotated[str, Meta(description="The name of a label.", extra_json_schema={"minLength": 1})]
    value: Annotated[str, Meta(description="Its value.", extra_json_schema={"minLength": 1})]


class MetricsSeriesRequest(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query for a series: its name, time range and buckets."""

    name: SeriesName
    begin: Bound = field(name="from")
    end: Bound = field(name="to")
    bucket_seconds: BucketSeconds | None = None
    fn: FunctionName | None = None
    filters: (
        Annotated[
            list[MetricLabelFilter],
            Meta(description="An array of objects, each the key and the value of a label; all must match."),
        ]
        | None
    ) = None


class MetricDataPoint(Struct, frozen=True):
    """A bucket, named by its start; value is null if nothing was measured in it."""

    time: Timestamp
    value: float | None


class MetricSeries(Struct, frozen=True):
    """The points of one combination of labels, oldest first."""

    labels: dict[str, str]
    data: list[MetricDataPoint]
