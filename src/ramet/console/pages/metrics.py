"""The charts of a service's metrics."""

from datetime import timedelta

from litestar import Response

from ramet.console.context import ServiceId, SignedIn, read
from ramet.console.rendering import page
from ramet.console.views.charts import METRICS, chart
from ramet.control.metrics import read_series
from ramet.control.services import get_service

_SHOWN = timedelta(hours=1)
_SHORTEST = timedelta(minutes=5)


@read("/services/{service_id:str}/metrics", operation="getServiceMetricsSeries", sync_to_thread=True)
def metrics_page(session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Chart the last hour, or the time since a younger service was created."""
    service = get_service(session.plane, session.project_id, service_id)
    end = session.plane.clock()
    begin = max(end - _SHOWN, min(service.created_at, end - _SHORTEST))
    charts = [
        chart(metric, read_series(session.plane, session.project_id, service.id, metric.name, begin, end, 60, None, {}))
        for metric in METRICS
    ]
    return page("metrics.html", session, service=service, charts=[one for one in charts if one is not None])
