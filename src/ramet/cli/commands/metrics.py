"""`ramet service metrics`: the current usage of a service, and its time series."""

from datetime import UTC, datetime, timedelta

import click

from ramet.api.schemas.metrics import MetricSeries
from ramet.api.schemas.services import Service, ServiceMetrics
from ramet.cli.ui.durations import Duration
from ramet.cli.ui.options import output_option, service_command
from ramet.cli.ui.output import print_pairs, print_result, print_rows
from ramet.client import Client
from ramet.model.metrics import Function

_FUNCTION = click.Choice(Function, case_sensitive=False)
_BARS = "▁▂▃▄▅▆▇█"


@service_command("metrics")
@click.argument("series", required=False)
@click.option(
    "--since",
    type=Duration(),
    default="1h",
    show_default=True,
    help="Length of the period that ends now, such as 1h or 7d.",
)
@click.option("--bucket", type=click.IntRange(60), help="Seconds in a bucket.  [default: depends on the period]")
@click.option(
    "--fn", "function", type=_FUNCTION, help="Function that combines the values of a bucket.  [default: AVG or RATE]"
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only series with this label.")
@output_option
def show_metrics(
    client: Client,
    service: Service,
    series: str | None,
    since: float,
    bucket: int | None,
    function: Function | None,
    labels: tuple[str, ...],
    output: str,
) -> None:
    """Show current usage, or a time series. Usage is CPU, memory and storage.

    \b
    Examples:
      ramet service metrics shop
      ramet service metrics shop ramet_transactions_total --since 1d
      ramet service metrics shop ramet_connections --fn MAX --label state=active -o json
    """
    now = datetime.now(UTC)
    more: dict[str, object] = {} if bucket is None else {"bucket_seconds": bucket}
    more |= {} if function is None else {"fn": function}
    more["filters"] = [_filter(label) for label in labels]
    if series is None:
        usage, names = service.metrics, client.list_series(service.service_id)
        print_result({"metrics": usage, "series": names}, output, lambda: print_pairs(_usage_pairs(usage, names)))
        return
    found = client.read_series(service.service_id, series, now - timedelta(seconds=since), now, **more)
    print_result(found, output, lambda: print_rows(("labels", "min", "max", "last", "course"), [*map(_row, found)]))


def _filter(label: str) -> dict[str, str]:
    key, equals, value = label.partition("=")
    if not (key and equals and value):
        raise click.UsageError(f"--label {label!r} is not KEY=VALUE.")
    return {"key": key, "value": value}


def _usage_pairs(usage: ServiceMetrics | None, names: list[str]) -> list[tuple[str, str]]:
    rows = [("cpu", "not measured yet"), ("memory", ""), ("storage", "")]
    if usage is not None:
        rows = [
            ("cpu", _shown(usage.milli_cpu, "thousandths of a core")),
            ("memory", _shown(usage.memory_mb, "MB")),
            ("storage", _shown(usage.storage_mb, "MB")),
            *([] if usage.own_storage_mb is None else [("of its own", f"{usage.own_storage_mb} MB")]),
        ]
    return [*rows, ("series", "\n".join(names))]


def _shown(figure: int | None, unit: str) -> str:
    return "?" if figure is None else f"{figure} {unit}"


def _row(series: MetricSeries) -> list[str]:
    values = [point.value for point in series.data]
    known = [value for value in values if value is not None]
    labels = ", ".join(f"{key}={value}" for key, value in series.labels.items())
    figures = [f"{value:.6g}" for value in (min(known), max(known), known[-1])] if known else ["", "", ""]
    return [labels, *figures, _bars(values)]


def _bars(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    span = (high - low) or 1.0
    return "".join(" " if value is None else _BARS[int((value - low) / span * (len(_BARS) - 1))] for value in values)
