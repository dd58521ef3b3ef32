"""`ramet service`: list, get, start, stop, delete."""

from pathlib import Path

import click

from ramet.api.schemas.services import Service
from ramet.cli.ui.options import (
    credentials_option,
    find_service,
    open_client,
    output_option,
    service_argument,
)
from ramet.cli.ui.output import say
from ramet.cli.ui.service_views import print_service, print_services
from ramet.cli.ui.waiting import Patience, waiting_options
from ramet.cli.user_files.passwords import forget_password
from ramet.model.service import Environment


@click.group("service")
def service_group() -> None:
    """Create, fork, list and change services."""


@service_group.command("list")
@output_option
@credentials_option
def list_services(output: str, credentials_file: Path | None) -> None:
    """List all services of the project, forks below their parents.

    \b
    Examples:
      ramet service list
      ramet service list -o json | jq -r '.[] | select(.status == "READY") | .name'
    """
    with open_client(credentials_file) as client:
        services = client.list_services()
    print_services(services, output)
    if not services and output == "table":
        say("No services yet. Make one: ramet service create NAME")


@service_group.command("get")
@service_argument
@output_option
@credentials_option
def get_service(service: str, output: str, credentials_file: Path | None) -> None:
    """Show one service, by its id or its name.

    \b
    Examples:
      ramet service get shop
      ramet service get d1k5vk7hf2 -o yaml
    """
    with open_client(credentials_file) as client:
        print_service(find_service(client, service), output)


@service_group.command("start")
@service_argument
@waiting_options
@output_option
@credentials_option
def start_service(service: str, patience: Patience, output: str, credentials_file: Path | None) -> None:
    """Resume a paused service.

    \b
    Example:
      ramet service start shop
    """
    with open_client(credentials_file) as client:
        changed = client.start_service(find_service(client, service).service_id)
        name = changed.name
        found = patience.follow(client.wait_ready, changed.service_id, f"Resuming {name}", f"{name} is READY")
    print_service(found or changed, output)


@service_group.command("stop")
@service_argument
@waiting_options
@output_option
@credentials_option
def stop_service(service: str, patience: Patience, output: str, credentials_file: Path | None) -> None:
    """Pause a service: its server stops, its data stays, and it can be forked all the same.

    \b
    Example:
      ramet service stop shop --wait-timeout 5m
    """
    with open_client(credentials_file) as client:
        changed = client.stop_service(find_service(client, service).service_id)
        name = changed.name
        found = patience.follow(client.wait_paused, changed.service_id, f"Pausing {name}", f"{name} is PAUSED")
    print_service(found or changed, output)


@service_group.command("delete")
@service_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask; for DEV services.")
@click.option("--confirm", metavar="NAME", help="Do not ask: NAME is the service's name. PROD services need it.")
@waiting_options
@credentials_option
def delete_service(
    service: str, yes: bool, confirm: str | None, patience: Patience, credentials_file: Path | None
) -> None:
    """Delete a service with its snapshots and its archive. Forks of it live on.

    \b
    Examples:
      ramet service delete preview-42 --yes
      ramet service delete shop --confirm shop
    """
    with open_client(credentials_file) as client:
        doomed = find_service(client, service)
        _confirm(doomed, yes, confirm)
        client.delete_service(doomed.service_id)
        forget_password(doomed.endpoint)
        patience.follow(client.wait_deleted, doomed.service_id, f"Deleting {doomed.name}", f"{doomed.name} is gone")


def _confirm(service: Service, yes: bool, confirm: str | None) -> None:
    """Make sure that the deletion is meant; raises UsageError or Exit when it is not."""
    is_prod = service.metadata.environment == Environment.PROD
    if confirm is not None:
        if confirm != service.name:
            raise click.UsageError(f"--confirm {confirm!r} is not the service's name, {service.name!r}.")
        return
    if yes and not is_prod:
        return
    if yes:
        raise click.UsageError(f"{service.name} is a PROD service: confirm with --confirm {service.name!r}.")
    what = f"{service.name} ({service.service_id}, {service.metadata.environment})"
    if is_prod:
        is_meant = click.prompt(f"Type the name to delete {what} for good", default="", err=True) == service.name
    else:
        is_meant = click.confirm(f"Delete {what} for good?", err=True)
    if not is_meant:
        say("Nothing was deleted.")
        raise click.exceptions.Exit(1)
