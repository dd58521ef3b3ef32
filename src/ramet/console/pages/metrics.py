"""Looking into a running service: charts of its metrics, and its log with a search."""

from datetime import timedelta

from litestar import Response

from ramet.console.context import AnyRequest, Context, ServiceId, SignedIn, read
from ramet.console.rendering import page
from ramet.console.views.charts import METRICS, chart
from ramet.control import services
from ramet.control.logs import read_logs
from ramet.control.metrics import read_series
from ramet.errors import Error, NotFound
from ramet.model.logs import LogEntry, LogQuery

_SHOWN = timedelta(hours=1)
_SHORTEST = timedelta(minutes=5)
_BUCKET_SECONDS = 60
_ENTRIES = 200
_FEW_ENTRIES = 50
_SEVERE = ("ERROR", "FATAL", "PANIC", "WARNING")


@read("/services/{service_id:str}/metrics", sync_to_thread=True)
def metrics_page(context: Context, session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Chart the last hour, or the life of a younger service."""
    service = services.get_service(context.plane, session.project_id, service_id)
    end = context.plane.clock()
    begin = max(end - _SHOWN, min(service.created_at, end - _SHORTEST))
    charts = []
    for metric in METRICS:
        found = read_series(
            context.plane, session.project_id, service.id, metric.name, begin, end, _BUCKET_SECONDS, None, {}
        )
        charts.append(chart(metric, found))
    drawn = [one for one in charts if one is not None]
    return page("metrics.html", context, session, service=service, charts=drawn)


@read("/services/{service_id:str}/logs", sync_to_thread=True)
def logs_page(request: AnyRequest, context: Context, session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Show the newest entries of the log in which every word of `q` occurs; `severe` leaves out the rest.

    `few` asks for no more than the page of the service has room for.
    """
    service = services.get_service(context.plane, session.project_id, service_id)
    query = str(request.query_params.get("q", ""))[:200]
    severe = "severe" in request.query_params
    entries: list[LogEntry] = []
    problem = ""
    limit = _FEW_ENTRIES if "few" in request.query_params else _ENTRIES
    wanted = LogQuery(search=query.split(), severities=_SEVERE if severe else (), limit=limit)
    try:
        entries = read_logs(context.plane, session.project_id, service.id, wanted).entries
    except NotFound:
        raise
    except (Error, OSError) as error:
        problem = f"The log cannot be read now: {error}"
    return page(
        "logs.html",
        context,
        session,
        service=service,
        entries=entries,
        query=query,
        severe=severe,
        severities=_SEVERE,
        problem=problem,
    )
