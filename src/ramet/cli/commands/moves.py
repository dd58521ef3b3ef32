"""`ramet service move` and `ramet service moves`: a service goes to another Ramet, and how that went."""

import os
from functools import partial
from pathlib import Path

import click
from rich.text import Text

from ramet.api.schemas.moves import Move
from ramet.api.schemas.services import Service
from ramet.cli.connection import connection_string
from ramet.cli.ui.confirmation import Confirmation, confirmation_options
from ramet.cli.ui.durations import shown_duration
from ramet.cli.ui.options import FILE, output_option, service_command
from ramet.cli.ui.output import print_pairs, print_result, print_rows
from ramet.cli.ui.waiting import Waiting, outcome_options
from ramet.cli.user_files.credentials import read_authority, read_credentials
from ramet.cli.user_files.passwords import find_password, save_password
from ramet.client import Client
from ramet.errors import Invalid, NotFound
from ramet.model.secret import Secret
from ramet.model.status import OperationStatus
from ramet.model.timestamps import rfc3339

_PUBLIC_KEY, _SECRET_KEY = "RAMET_TARGET_PUBLIC_KEY", "RAMET_TARGET_SECRET_KEY"
_UNDER_WAY = (OperationStatus.RUNNING, OperationStatus.UNDOING)


@service_command("move")
@click.option("--to", "url", required=True, metavar="URL", help="The other Ramet, such as https://ramet.example:8080.")
@click.option(
    "--to-credentials",
    type=FILE,
    help="File with the key of an ADMIN there, as 'ramet up --credentials-file' writes it."
    f"  [default: {_PUBLIC_KEY} and {_SECRET_KEY}]",
)
@click.option(
    "--to-ca",
    type=FILE,
    help="File with the authority of its certificate, which 'ramet ca' prints there.  [default: those browsers know]",
)
@click.option("--name", help="The name of the service there.  [default: the same]")
@confirmation_options
@outcome_options
def move(
    client: Client,
    service: Service,
    url: str,
    to_credentials: Path | None,
    to_ca: Path | None,
    name: str | None,
    confirmation: Confirmation,
    waiting: Waiting,
    output: str,
) -> int:
    """Move a service to another Ramet, with its data, roles and passwords.

    A copy there follows the service, which serves until the copy is close behind. Then it is stopped, the copy
    receives the rest, and takes its place: that takes seconds, however large the service is. Here it stays, paused, as
    NAME-moved-… until you delete it. When anything fails, it serves here as before.

    The host there must reach the endpoint of the service, and this Ramet the URL.

    \b
    Examples:
      RAMET_TARGET_PUBLIC_KEY=… RAMET_TARGET_SECRET_KEY=… ramet service move shop --to https://ramet.example:8080
      ramet service move shop --to https://ramet.example:8080 --to-credentials there.json --to-ca there.crt
    """
    public_key, secret_key, authority = _key(to_credentials)
    if to_ca is not None:
        authority = read_authority(str(to_ca))
    confirmation.ask(service, "Move", "Nothing was changed.")
    begun = client.move_service(
        service.service_id,
        url,
        public_key,
        secret_key,
        certificate_authority=authority or None,
        name=name,
        confirm=service.name,
    )
    wait = partial(client.wait_moved, begun.service_id, begun.move_id)
    found = waiting.to_end(begun, "The move", f"ramet service moves {service.service_id}", wait)
    print_result(found, output, lambda: print_pairs(move_pairs(found)))
    if found.endpoint is not None and (password := find_password(service.endpoint)) is not None:
        save_password(found.endpoint, password)
    return 1 if found.status is OperationStatus.FAILED else 0


@service_command("moves")
@click.option("--cancel", is_flag=True, help="Call off the move that is under way: the service serves here as before.")
@click.option(
    "--target-is-lost", is_flag=True, help="With --cancel: the other Ramet is gone, and will never open the service."
)
@output_option
def list_moves(client: Client, service: Service, cancel: bool, target_is_lost: bool, output: str) -> None:
    """List the moves of a service to other Ramets, or call off the one that is under way.

    \b
    Examples:
      ramet service moves shop
      ramet service moves shop --cancel
    """
    listed = client.list_moves(service.service_id)
    if target_is_lost and not cancel:
        raise click.UsageError("--target-is-lost goes with --cancel.")
    if cancel:
        found = next((one for one in listed.moves if one.status in _UNDER_WAY), None)
        if found is None:
            raise NotFound("MOVE_NOT_FOUND", f"No move of {service.name} is under way")
        ended = client.cancel_move(service.service_id, found.move_id, target_is_lost=target_is_lost)
        print_result(ended, output, lambda: print_pairs(move_pairs(ended)))
        return
    columns = ("id", "begun", "to", "as", "status", "step", "stopped", "kept here as", "error")
    print_result(listed, output, lambda: print_rows(columns, [_row(one) for one in listed.moves]))


def move_pairs(found: Move) -> list[tuple[str, str | Text]]:
    """Return what is known of a move for a table."""
    pairs: list[tuple[str, str | Text]] = [
        ("move", f"{found.move_id}, to {found.to_url}"),
        ("status", f"{found.status}{f', {found.step}' if found.step else ''}"),
    ]
    if found.progress:
        pairs.append(("progress", found.progress))
    if found.error is not None:
        pairs.append(("failed", Text(found.error, style="red")))
    if found.target_service_id is not None:
        pairs.append(("service there", f"{found.name} ({found.target_service_id})"))
    if found.endpoint is not None:
        pairs.append(("connection string", connection_string(found.endpoint)))
    if found.stopped_seconds is not None:
        pairs.append(("stopped", shown_duration(found.stopped_seconds)))
    if found.status is OperationStatus.SUCCEEDED:
        pairs.append(("kept here as", f"{found.kept_as}, paused"))
    return pairs + [("not there", Text(note, style="yellow")) for note in found.notes]


def _row(found: Move) -> list[str | Text]:
    return [
        found.move_id,
        rfc3339(found.started_at),
        found.to_url,
        found.name,
        str(found.status),
        found.step or "",
        "" if found.stopped_seconds is None else shown_duration(found.stopped_seconds),
        found.kept_as if found.status is OperationStatus.SUCCEEDED else "",
        found.error or "",
    ]


def _key(file: Path | None) -> tuple[str, Secret, str]:
    """Return the key of the other Ramet, and the authority of its certificate if that is known. Raises Invalid."""
    if file is not None:
        found = read_credentials(file)
        if found is None:
            raise Invalid("NO_CREDENTIALS", f"There is no credentials file at {file}")
        return found.public_key, Secret(found.secret_key), found.ca
    public_key, secret_key = os.environ.get(_PUBLIC_KEY), os.environ.get(_SECRET_KEY)
    if not public_key or not secret_key:
        raise Invalid(
            "NO_CREDENTIALS",
            f"The key of the other Ramet is missing: {_PUBLIC_KEY} and {_SECRET_KEY} are not both set",
            "Set them, or give --to-credentials FILE.",
        )
    return public_key, Secret(secret_key), ""
