"""`ramet service settings`: settings of PostgreSQL that a service has of its own."""

from collections.abc import Mapping

import click

from ramet.api.schemas.services import Service
from ramet.api.schemas.settings import Setting, Settings
from ramet.cli.ui.options import service_command
from ramet.cli.ui.output import print_result, print_rows, say
from ramet.cli.ui.waiting import Waiting, outcome_options
from ramet.client import Client
from ramet.errors import Failed
from ramet.model.parameters import PARAMETERS, changed
from ramet.model.status import Status


@service_command("settings")
@click.argument("assignments", metavar="[NAME=VALUE]...", nargs=-1)
@click.option("--reset", metavar="NAME", multiple=True, help="Take the usual value of a setting again. Repeatable.")
@click.option("--restart", is_flag=True, help="Restart the server if a setting needs that.")
@click.option("--all", "shows_all", is_flag=True, help="Show all settings, not only those of the service's own.")
@outcome_options
def service_settings(
    client: Client,
    service: Service,
    assignments: tuple[str, ...],
    reset: tuple[str, ...],
    restart: bool,
    shows_all: bool,
    waiting: Waiting,
    output: str,
) -> None:
    """Show or change settings of PostgreSQL, such as work_mem, statement_timeout or log_min_duration_statement.

    They are put in force while the service serves. max_connections and max_locks_per_transaction wait for a restart,
    which --restart asks for. Forks inherit them.

    \b
    Examples:
      ramet service settings shop --all
      ramet service settings shop log_min_duration_statement=500ms work_mem=64MB
      ramet service settings shop --reset work_mem
      ramet service settings shop max_connections=200 --restart
    """
    changes = {**_assigned(assignments), **dict.fromkeys(reset)}
    is_under_way = False
    if changes or restart:
        updated = client.update_settings(service.service_id, changes, restart=restart)
        if updated.status not in (Status.PAUSED, Status.READY):
            doing, done = f"Changing settings of {service.name}", f"The settings of {service.name} are changed"
            is_under_way = waiting.follow(client.wait_ready, service.service_id, doing, done) is None
    found = client.get_settings(service.service_id)
    if not is_under_way:
        _check(found, changes)
    print_result(found, output, lambda: _print(service, found, changes, shows_all=shows_all))


def _assigned(assignments: tuple[str, ...]) -> Mapping[str, str | None]:
    for each in assignments:
        if "=" not in each:
            raise click.UsageError(f"{each!r} is not NAME=VALUE. '--reset {each}' takes the usual value again.")
    return {name.strip(): value.strip() for name, _, value in (each.partition("=") for each in assignments)}


def _check(found: Settings, changes: Mapping[str, str | None]) -> None:
    """Raise Failed when the operation has ended, and its settings were taken back."""
    own = {one.name: one.value for one in found.settings if one.value is not None}
    if changed(own, {name: value for name, value in changes.items() if name in PARAMETERS}) != own:
        raise Failed("SETTINGS_NOT_CHANGED", "The settings are as before", "'ramet operations' shows why.")


def _print(service: Service, found: Settings, changes: Mapping[str, str | None], *, shows_all: bool) -> None:
    shown = [one for one in found.settings if shows_all or one.value is not None or one.name in changes]
    if shown:
        columns = ("setting", "own value", "in force", "accepts")
        print_rows(columns, [_row(one) for one in shown])
    else:
        say(f"{service.name} has no settings of its own. '--all' shows those that it can have.")
    waiting = [one.name for one in found.settings if one.pending_restart]
    if waiting:
        say(f"Pending restart: {', '.join(waiting)}. 'ramet service settings {service.name} --restart' does it now.")


def _row(one: Setting) -> list[str]:
    return [one.name, one.value or "", "-" if one.in_force is None else one.in_force, one.accepts]
