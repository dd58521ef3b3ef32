"""`ramet operations`: what runs, ran and failed."""

from pathlib import Path

import click
from rich.text import Text

from ramet.api.schemas.operations import Operation
from ramet.cli.ui.durations import shown_duration
from ramet.cli.ui.options import credentials_option, find_service, open_client, output_option
from ramet.cli.ui.output import print_data, print_rows
from ramet.errors import NotFound
from ramet.ids import is_id

_COLOURS = {"SUCCEEDED": "green", "FAILED": "red", "UNDOING": "red"}


@click.command("operations")
@click.argument("service", required=False)
@click.option("-n", "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="How many at most.")
@click.option(
    "--all", "everything", is_flag=True, help="Also what nobody asked for: snapshots on schedule and the like."
)
@click.option("--steps", is_flag=True, help="Show each step with its time.")
@output_option
@credentials_option
def list_operations(
    service: str | None, limit: int, everything: bool, steps: bool, output: str, credentials_file: Path | None
) -> None:
    """List what runs, ran and failed on a service, or in the whole project; also of services that are gone.

    \b
    Examples:
      ramet operations
      ramet operations shop --steps
      ramet operations --all
      ramet operations d1k5vk7hf2 -o json
    """
    wanted = {"all": "true"} if everything else {}
    with open_client(credentials_file) as client:
        service_id = service
        if service is not None:
            try:
                service_id = find_service(client, service).service_id
            except NotFound:
                if not is_id(service):
                    raise
        found = client.list_operations(service_id, limit=str(limit), **wanted).operations
    if output != "table":
        print_data(found, output)
    elif steps:
        print_rows(("operation", "step", "outcome", "seconds", "error"), [row for one in found for row in _steps(one)])
    else:
        print_rows(("begun", "service", "id", "operation", "status", "took", "reason"), [_row(one) for one in found])


def _row(operation: Operation) -> list[str | Text]:
    took = operation.step if operation.seconds is None else shown_duration(operation.seconds)
    return [
        operation.created.strftime("%Y-%m-%d %H:%M:%S"),
        operation.service_name,
        operation.service_id,
        operation.operation,
        Text(operation.status, style=_COLOURS.get(operation.status, "yellow")),
        took,
        (operation.error or operation.progress).partition("\n")[0],
    ]


def _steps(operation: Operation) -> list[list[str | Text]]:
    title = f"{operation.operation} {operation.service_name}"
    return [
        [title, step.step, step.outcome, f"{step.seconds:.3f}", (step.error or "").partition("\n")[0]]
        for step in operation.steps
    ]
