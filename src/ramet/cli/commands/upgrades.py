"""`ramet service upgrade` and `ramet service upgrades`: another major version of PostgreSQL, and how it went."""

from functools import partial

import click
from rich.text import Text

from ramet.api.schemas.services import Service
from ramet.api.schemas.upgrades import PlanComparison, Upgrade
from ramet.cli.connection import connection_string
from ramet.cli.ui.durations import shown_duration
from ramet.cli.ui.options import output_option, password_option, service_command
from ramet.cli.ui.output import print_pairs, print_result, print_rows, say
from ramet.cli.ui.secrets import show_unsaved, shown_if_unsaved
from ramet.cli.ui.waiting import Waiting, outcome_options
from ramet.cli.user_files.passwords import passwords_path, save_password
from ramet.client import Client
from ramet.model.status import OperationStatus
from ramet.model.timestamps import rfc3339

_SHOWN_PLANS = 10


@service_command("upgrade")
@click.option("--to", "to_version", type=int, required=True, metavar="VERSION", help="PostgreSQL major version.")
@click.option("--try", "is_trial", is_flag=True, help="Only upgrade a fork of the service, and report.")
@click.option("--keep-fork", is_flag=True, help="With --try: keep the fork as a service.  [default: it is deleted]")
@password_option
@outcome_options
def upgrade(
    client: Client,
    service: Service,
    to_version: int,
    is_trial: bool,
    keep_fork: bool,
    no_save_password: bool,
    waiting: Waiting,
    output: str,
) -> int:
    """Upgrade a service to another major version of PostgreSQL, after that was tried on a fork of it.

    The fork is upgraded with pg_upgrade. The rows of all tables, and the plans of the statements that take the most
    time, are compared before and after. The report says how long each step took. With --try that is all, and the
    service serves all the time. Without it the service is stopped then, upgraded in the same way, and started at its
    own endpoint; its state before remains as a paused service, with all snapshots. If anything fails, the service
    serves as before. An upgrade that cannot succeed is refused before anything is made.

    \b
    Examples:
      ramet service upgrade shop --to 18 --try
      ramet service upgrade shop --to 18
      ramet service upgrade shop --to 18 --try --keep-fork
    """
    begun = client.upgrade_service(service.service_id, to_version, trial=is_trial, keep_fork=keep_fork)
    _save_password(client, begun, shown=no_save_password)
    command = f"ramet service upgrades {begun.service_id} --id {begun.upgrade_id}"
    wait = partial(client.wait_upgraded, begun.service_id, begun.upgrade_id)
    found = waiting.to_end(begun, "The upgrade", command, wait)
    print_result(found, output, lambda: print_pairs(upgrade_pairs(found)))
    return 1 if found.status is OperationStatus.FAILED or found.row_differences else 0


@service_command("upgrades")
@click.option("--id", "upgrade_id", metavar="ID", help="Show the report of this one.")
@output_option
def list_upgrades(client: Client, service: Service, upgrade_id: str | None, output: str) -> None:
    """List the upgrades that were tried of a service, or show the report of one.

    \b
    Examples:
      ramet service upgrades shop
      ramet service upgrades shop --id d1k5vk7hf2
    """
    if upgrade_id is not None:
        found = client.get_upgrade(service.service_id, upgrade_id)
        print_result(found, output, lambda: print_pairs(upgrade_pairs(found)))
        return
    listed = client.list_upgrades(service.service_id)
    columns = ("id", "begun", "from", "to", "status", "step", "error")
    rows = [
        (
            one.upgrade_id, rfc3339(one.started_at), one.from_version, one.to_version, str(one.status), one.step or "",
            one.error or "",
        )
        for one in listed.upgrades
    ]  # fmt: skip
    print_result(listed, output, lambda: print_rows(columns, rows))


def upgrade_pairs(found: Upgrade) -> list[tuple[str, str | Text]]:
    """Return the report of an upgrade for a table."""
    pairs: list[tuple[str, str | Text]] = [
        ("upgrade", f"{found.upgrade_id}: PostgreSQL {found.from_version} to {found.to_version}"),
        ("status", f"{found.status}{f', {found.step}' if found.step else ''}"),
    ]
    if found.error is not None:
        pairs.append(("failed", Text(found.error, style="red")))
    for one in found.extensions:
        versions = f"{one.version} to {one.new_version}" if one.new_version != one.version else one.version
        pairs.append((f"extension {one.name}", f"{versions} in database {one.database}"))
    if found.tables is not None:
        pairs.append(("rows", f"{found.rows} in {found.tables} tables, compared before and after"))
    for each in found.row_differences or ():
        text = f"{each.table}: {_count(each.before)} before, {_count(each.after)} after"
        pairs.append(("rows differ", Text(text, style="red")))
    pairs += _plan_pairs(found)
    pairs += [("not carried over", Text(problem, style="yellow")) for problem in found.problems]
    if found.statistics is not None:
        pairs.append(("statistics", found.statistics))
    pairs += [(f"{step}", shown_duration(seconds)) for step, seconds in found.seconds.items()]
    if found.stopped_seconds is not None:
        pairs.append(("downtime", shown_duration(found.stopped_seconds)))
        pairs.append(("state before", f"paused service {found.previous_service_id}"))
    elif found.downtime_seconds is not None:
        pairs.append(("downtime", f"about {shown_duration(found.downtime_seconds)}"))
    return pairs


def _plan_pairs(found: Upgrade) -> list[tuple[str, str | Text]]:
    if found.plans_note is not None:
        return [("plans", found.plans_note)]
    if found.plans is None:
        return []
    changed = [one for one in found.plans if one.changed]
    unknown = [one for one in found.plans if one.changed is None]
    pairs: list[tuple[str, str | Text]] = [
        ("plans", f"{len(found.plans)} statements compared: {len(changed)} changed, {len(unknown)} not planned")
    ]
    pairs += [("plan changed", Text(_changed(one), style="yellow")) for one in changed[:_SHOWN_PLANS]]
    return pairs + [("not planned", f"{one.statement}: {one.problem}") for one in unknown[:_SHOWN_PLANS]]


def _changed(one: PlanComparison) -> str:
    cost = f"cost {one.cost_before} to {one.cost_after}"
    return "\n".join([f"{one.statement} ({cost})", *(f"- {x}" for x in one.before), *(f"+ {x}" for x in one.after)])


def _count(rows: int | None) -> str:
    return "no table" if rows is None else f"{rows} rows"


def _save_password(client: Client, begun: Upgrade, *, shown: bool) -> None:
    if begun.initial_password is None:
        return
    password_of = f"The password of the fork {begun.upgrade_id}"
    if shown:
        show_unsaved(password_of, begun.initial_password)
        return
    with shown_if_unsaved(password_of, begun.initial_password):
        fork = client.get_service(begun.upgrade_id)
        save_password(fork.endpoint, begun.initial_password)
    say(f"The password of {fork.name}, {connection_string(fork.endpoint)}, is saved in {passwords_path()}.")
