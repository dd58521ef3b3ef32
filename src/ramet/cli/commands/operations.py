"""`ramet operations`: operations that run, succeeded or failed."""

import click
from rich.text import Text

from ramet.api.schemas.operations import Operation
from ramet.cli.ui.durations import local_time, shown_duration
from ramet.cli.ui.options import complete_service, find_service, output_option, with_client
from ramet.cli.ui.output import print_result, print_rows
from ramet.client import Client
from ramet.errors import NotFound
from ramet.ids import is_id

_COLUMNS = ("begun", "service", "id", "operation", "status", "took", "by", "reason")
_STEP_COLUMNS = ("operation", "step", "outcome", "seconds", "error")
_COLOURS = {"SUCCEEDED": "green", "FAILED": "red", "UNDOING": "red"}


@click.command("operations")
@click.argument("service", required=False, shell_complete=complete_service)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Largest number of operations."
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Include operations that no client requested, such as scheduled snapshots.",
)
@click.option("--steps", is_flag=True, help="Show each step and how long it took.")
@output_option
@with_client
def list_operations(
    client: Client, service: str | None, limit: int, everything: bool, steps: bool, output: str
) -> None:
    """List operations, newest first. They are those of a service, or of the whole project.

    A deleted service is found by its id.

    \b
    Examples:
      ramet operations
      ramet operations shop --steps
      ramet operations --all
      ramet operations d1k5vk7hf2 -o json
    """
    wanted = {"all": "true"} if everything else {}
    service_id = service
    if service is not None:
        try:
            service_id = find_service(client, service).service_id
        except NotFound:
            if not is_id(service):
                raise
    found = client.list_operations(service_id, limit=str(limit), **wanted).operations
    columns, rows = (
        (_STEP_COLUMNS, [row for one in found for row in _steps(one)]) if steps else (_COLUMNS, [*map(_row, found)])
    )
    print_result(found, output, lambda: print_rows(columns, rows))


def _row(operation: Operation) -> list[str | Text]:
    took = operation.step if operation.seconds is None else shown_duration(operation.seconds)
    return [
        local_time(operation.created),
        operation.service_name,
        operation.service_id,
        operation.operation,
        Text(operation.status, style=_COLOURS.get(operation.status, "yellow")),
        took,
        "" if operation.actor is None else operation.actor.name or operation.actor.id,
        (operation.error or operation.reason or operation.progress).partition("\n")[0],
    ]


def _steps(operation: Operation) -> list[list[str | Text]]:
    title = f"{operation.operation} {operation.service_name}"
    return [
        [title, step.step, step.outcome, f"{step.seconds:.3f}", (step.error or "").partition("\n")[0]]
        for step in operation.steps
    ]
