"""The charts of a service's metrics."""

from datetime import datetime, timedelta

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import ServiceId, SignedIn, read
from ramet.console.rendering import page
from ramet.console.views.charts import METRICS, charts
from ramet.control.metrics import read_together
from ramet.control.services import get_service
from ramet.errors import Invalid

_RANGES = {
    "hour": ("hour", timedelta(hours=1)),
    "6h": ("6 hours", timedelta(hours=6)),
    "day": ("day", timedelta(days=1)),
    "week": ("week", timedelta(days=7)),
    "month": ("30 days", timedelta(days=30)),
}
_SHORTEST = timedelta(minutes=5)
_BUCKETS = (60, 300, 900, 3600, 21_600)
_MOST_POINTS = 170


@read("/services/{service_id:str}/metrics", operation="getServiceMetricsSeries", sync_to_thread=True)
def metrics_page(session: SignedIn, service_id: ServiceId, range: FromQuery[str] = "hour") -> Response[str]:
    """Chart the last hour or a longer range, of a younger service the time since it was created."""
    service = get_service(session.plane, session.project_id, service_id)
    if range not in _RANGES:
        wrong = f"range must be one of {', '.join(_RANGES)}, not {range[:20]!r}"
        raise Invalid("INVALID_FIELD", wrong, "Choose one of them on the page of the metrics.")
    chosen, end = range, session.plane.clock()
    begin = max(end - _RANGES[chosen][1], min(service.created_at, end - _SHORTEST))
    names = [metric.name for metric in METRICS]
    found = read_together(session.plane, service.id, names, begin, end, _bucket_seconds(begin, end))
    return page(
        "metrics.html",
        session,
        service=service,
        ranges=[(name, title) for name, (title, _) in _RANGES.items()],
        chosen=chosen,
        shown=charts(list(zip(METRICS, found, strict=True))),
    )


def _bucket_seconds(begin: datetime, end: datetime) -> int:
    """Return the shortest buckets that are not more than a chart shows."""
    seconds = (end - begin).total_seconds()
    return next((one for one in _BUCKETS if seconds / one <= _MOST_POINTS), _BUCKETS[-1])
