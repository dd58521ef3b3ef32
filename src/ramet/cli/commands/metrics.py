"""`ramet service metrics`: what is measured of a service."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from ramet.api.schemas.metrics import MetricSeries
from ramet.api.schemas.services import Service
from ramet.cli.ui.durations import Duration
from ramet.cli.ui.options import credentials_option, find_service, open_client, output_option, service_argument
from ramet.cli.ui.output import print_data, print_pairs, print_rows
from ramet.model.metrics import Function

_FUNCTION = click.Choice([one.value for one in Function], case_sensitive=False)
_BARS = "▁▂▃▄▅▆▇█"


@click.command("metrics")
@service_argument
@click.argument("series", required=False)
@click.option("--since", type=Duration(), default="1h", show_default=True, help="How far back.")
@click.option("--bucket", type=click.IntRange(60), help="Seconds of a bucket.  [default: by the window]")
@click.option("--fn", "function", type=_FUNCTION, help="How values become one.  [default: AVG or RATE]")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only series with this label.")
@output_option
@credentials_option
def show_metrics(
    service: str,
    series: str | None,
    since: float,
    bucket: int | None,
    function: str | None,
    labels: tuple[str, ...],
    output: str,
    credentials_file: Path | None,
) -> None:
    """Show what a service uses now, or one of its series.

    \b
    Examples:
      ramet service metrics shop
      ramet service metrics shop ramet_transactions_total --since 1d
      ramet service metrics shop ramet_connections --fn MAX --label state=active -o json
    """
    now = datetime.now(UTC)
    more: dict[str, object] = {} if bucket is None else {"bucket_seconds": bucket}
    more |= {} if function is None else {"fn": function.upper()}
    more["filters"] = [_filter(label) for label in labels]
    with open_client(credentials_file) as client:
        found = find_service(client, service)
        if series is None:
            _print_usage(client.get_service(found.service_id), client.list_series(found.service_id), output)
        else:
            begin = now - timedelta(seconds=since)
            _print_series(client.read_series(found.service_id, series, begin, now, **more), output)


def _filter(label: str) -> dict[str, str]:
    key, equals, value = label.partition("=")
    if not (key and equals and value):
        raise click.UsageError(f"--label {label!r} is not KEY=VALUE.")
    return {"key": key, "value": value}


def _print_usage(service: Service, names: list[str], output: str) -> None:
    if output != "table":
        print_data({"metrics": service.metrics, "series": names}, output)
        return
    usage = service.metrics
    rows = [("cpu", "not measured yet"), ("memory", ""), ("storage", "")]
    if usage is not None:
        rows = [
            ("cpu", "?" if usage.milli_cpu is None else f"{usage.milli_cpu} thousandths of a core"),
            ("memory", f"{usage.memory_mb} MB"),
            ("storage", f"{usage.storage_mb} MB"),
        ]
    print_pairs([*rows, ("series", "\n".join(names))])


def _print_series(found: list[MetricSeries], output: str) -> None:
    if output != "table":
        print_data(found, output)
        return
    rows = []
    for series in found:
        values = [point.value for point in series.data]
        known = [value for value in values if value is not None]
        labels = ", ".join(f"{key}={value}" for key, value in series.labels.items())
        figures = [f"{value:.6g}" for value in (min(known), max(known), known[-1])] if known else ["", "", ""]
        rows.append([labels, *figures, _bars(values)])
    print_rows(("labels", "min", "max", "last", "course"), rows)


def _bars(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    span = (high - low) or 1.0
    return "".join(" " if value is None else _BARS[int((value - low) / span * (len(_BARS) - 1))] for value in values)
