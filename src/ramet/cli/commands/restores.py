"""`ramet service restore`, `reset`, `checkpoint`, `rewind` and `restores`: other data at the same endpoint."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

import click
from rich.text import Text

from ramet.api.schemas.restores import Restore
from ramet.api.schemas.services import Service
from ramet.cli.ui.confirmation import Confirmation, confirmation_options
from ramet.cli.ui.durations import absolute_time, shown_duration
from ramet.cli.ui.exit_codes import in_own_words
from ramet.cli.ui.options import find_service, output_option, service_command
from ramet.cli.ui.output import print_pairs, print_result, print_rows
from ramet.cli.ui.waiting import Waiting, continuing, outcome_options
from ramet.client import Client
from ramet.model.fork import ForkStrategy
from ramet.model.status import OperationStatus
from ramet.model.timestamps import rfc3339

_REPLACE, _UNCHANGED = "Replace the data of", "Nothing was changed."
_keep = click.option("--keep-previous", is_flag=True, help="Keep the state before as a paused service.")


@service_command("restore")
@click.option(
    "--to", "to_time", metavar="TIME", help="As of a past time: RFC 3339 with an offset, or '10 minutes ago'."
)
@click.option("--snapshot", metavar="NAME", help="A snapshot of the service: its id, or the name of a manual one.")
@click.option("--from", "from_service", metavar="SERVICE", help="The present data of another service, by name or id.")
@click.option("--discard-previous", is_flag=True, help="Remove the state before.  [default: a paused service has it]")
@confirmation_options
@outcome_options
def restore(
    client: Client,
    service: Service,
    to_time: str | None,
    snapshot: str | None,
    from_service: str | None,
    discard_previous: bool,
    confirmation: Confirmation,
    waiting: Waiting,
    output: str,
) -> int:
    """Restore a service in place: give it earlier data, or that of another service, at its own endpoint.

    The data is prepared beside the service, which serves until it is exchanged in a short stop. Passwords stay. The
    state before remains as a paused service, NAME-before-restore-…: to undo, restore with --from that.

    \b
    Examples:
      ramet service restore shop --to "10 minutes ago"
      ramet service restore shop --snapshot before-the-migration
      ramet service restore shop --from shop-before-restore-20260115-103000
      ramet service restore shop --to 2026-01-15T10:30:00Z --confirm shop
    """
    if len([one for one in (to_time, snapshot, from_service) if one is not None]) != 1:
        raise click.UsageError("Give exactly one of --to TIME, --snapshot NAME and --from SERVICE.")
    target_time = None if to_time is None else absolute_time(to_time, datetime.now(UTC))
    confirmation.ask(service, _REPLACE, _UNCHANGED, _as_of(target_time))
    begun = client.restore_service(
        service.service_id,
        target_time=target_time,
        snapshot=snapshot,
        from_service_id=None if from_service is None else find_service(client, from_service).service_id,
        keep_previous=not discard_previous,
        confirm=service.name,
    )
    return _follow(client, begun, waiting, output)


@service_command("reset")
@click.option("--now", is_flag=True, help="The present data of the parent.  [default]")
@click.option("--last-snapshot", is_flag=True, help="The latest snapshot of the parent.")
@click.option("--to", "to_time", metavar="TIME", help="The parent as of a past time, as for restore.")
@_keep
@confirmation_options
@outcome_options
def reset(
    client: Client,
    service: Service,
    now: bool,
    last_snapshot: bool,
    to_time: str | None,
    keep_previous: bool,
    confirmation: Confirmation,
    waiting: Waiting,
    output: str,
) -> int:
    """Reset a fork: make it a fresh copy of its parent, with its own id, endpoint and passwords.

    Its own forks are not affected.

    \b
    Examples:
      ramet service reset staging --yes
      ramet service reset staging --last-snapshot --keep-previous
    """
    if sum((now, last_snapshot, to_time is not None)) > 1:
        raise click.UsageError("Give at most one of --now, --last-snapshot and --to TIME.")
    fields: dict[str, Any] = {"keep_previous": keep_previous, "confirm": service.name}
    strategy = ForkStrategy.LAST_SNAPSHOT if last_snapshot else ForkStrategy.NOW
    if to_time is not None:
        strategy, fields["target_time"] = ForkStrategy.PITR, absolute_time(to_time, datetime.now(UTC))
    confirmation.ask(service, _REPLACE, _UNCHANGED, _as_of(fields.get("target_time")))
    return _follow(client, client.reset_service(service.service_id, strategy, **fields), waiting, output)


@service_command("checkpoint")
@click.argument("name")
def checkpoint(client: Client, service: Service, name: str) -> None:
    """Make a checkpoint: a snapshot to which the service can be rewound by its name, as often as one likes.

    The newest one with a name counts. It is kept until it is deleted.

    \b
    Examples:
      ramet service checkpoint preview-42 before-step-3
      ramet service rewind preview-42 before-step-3 --yes
    """
    taken = client.create_checkpoint(service.service_id, name)
    with continuing(f"Taking checkpoint {name}", f"ramet service snapshots {service.service_id}"):
        client.wait_checkpoint(service.service_id, taken.id)
    print_pairs([("id", taken.id)])


@service_command("rewind")
@click.argument("name")
@_keep
@confirmation_options
@outcome_options
def rewind(
    client: Client,
    service: Service,
    name: str,
    keep_previous: bool,
    confirmation: Confirmation,
    waiting: Waiting,
    output: str,
) -> int:
    """Rewind a service to a checkpoint, at its own endpoint.

    What was committed since then stays in its restore window.

    \b
    Example:
      ramet service rewind preview-42 before-step-3 --yes
    """
    confirmation.ask(service, _REPLACE, _UNCHANGED)
    begun = client.rewind_service(service.service_id, name, keep_previous=keep_previous, confirm=service.name)
    return _follow(client, begun, waiting, output)


@service_command("restores")
@output_option
def list_restores(client: Client, service: Service, output: str) -> None:
    """List the restores in place, resets and rewinds of a service, newest first.

    \b
    Example:
      ramet service restores shop
    """
    listed = client.list_restores(service.service_id)
    columns = ("id", "begun", "verb", "of", "status", "stopped", "state before", "error")
    print_result(listed, output, lambda: print_rows(columns, [_row(one) for one in listed.restores]))


def _as_of(target_time: str | None) -> str:
    """Return what a question says beside the service: the time counts from before somebody thinks about it."""
    return "" if target_time is None else f"It gets the data as of {target_time}."


def _follow(client: Client, begun: Restore, waiting: Waiting, output: str) -> int:
    """Wait for the end of a restore unless that is not wanted, and print what is known of it. Return the exit code."""
    wait = partial(client.wait_restored, begun.service_id, begun.restore_id)
    found = waiting.to_end(begun, f"The {begun.verb}", f"ramet service restores {begun.service_id}", wait)
    print_result(found, output, lambda: print_pairs(restore_pairs(found)))
    return 1 if found.status is OperationStatus.FAILED else 0


def restore_pairs(found: Restore) -> list[tuple[str, str | Text]]:
    """Return what is known of a restore for a table."""
    pairs: list[tuple[str, str | Text]] = [
        ("restore", f"{found.restore_id} ({found.verb})"),
        ("status", f"{found.status}{f', {found.step}' if found.step else ''}"),
        ("state of", _source(found)),
    ]
    if found.error is not None:
        pairs.append(("failed", Text(in_own_words(found.error), style="red")))
    if found.stopped_seconds is not None:
        pairs.append(("stopped", shown_duration(found.stopped_seconds)))
    if found.previous_service_id is not None:
        pairs.append(("state before", f"paused service {found.previous_service_id}"))
    return pairs


def _source(found: Restore) -> str:
    if found.target_time is not None:
        return f"service {found.source_service_id} at {rfc3339(found.target_time)}"
    if found.snapshot_id is not None:
        return f"snapshot {found.snapshot_id} of service {found.source_service_id}"
    return f"service {found.source_service_id}"


def _row(found: Restore) -> list[str | Text]:
    stopped = "" if found.stopped_seconds is None else shown_duration(found.stopped_seconds)
    return [
        found.restore_id,
        rfc3339(found.started_at),
        found.verb,
        _source(found),
        str(found.status),
        stopped,
        found.previous_service_id or "",
        found.error or "",
    ]
