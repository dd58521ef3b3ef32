"""`ramet service`: list, get, start, stop, delete."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from ramet.api.schemas.services import Service
from ramet.cli.ui.confirmation import Confirmation, confirmation_options
from ramet.cli.ui.durations import Duration
from ramet.cli.ui.options import (
    complete_service,
    find_service,
    named_output,
    output_option,
    service_command,
    with_client,
)
from ramet.cli.ui.output import say
from ramet.cli.ui.service_views import print_deleted, print_service, print_services
from ramet.cli.ui.waiting import Waiting, outcome_options, waiting_options
from ramet.cli.user_files.passwords import forget_password
from ramet.client import ApiError, Client
from ramet.client.errors import is_absence
from ramet.errors import WrongState
from ramet.model.status import Status

_WATCH_SECONDS = 2.0
_STAYS = "What the off-host archive has stays there until it expires."
_SORTED_BY: Mapping[str, Callable[[Service], Any]] = {
    "name": lambda one: one.name,
    "status": lambda one: one.status,
    "created": lambda one: one.created,
    "space": lambda one: (one.metrics and one.metrics.storage_mb) or 0,
    "own": lambda one: (one.metrics and one.metrics.own_storage_mb) or 0,
}


@click.command("list")
@click.option("--deleted", is_flag=True, help="List deleted services that can still be forked, with --from-deleted.")
@click.option("--label", "labels", metavar="KEY[=VALUE]", multiple=True, help="Only with this label; can be repeated.")
@click.option(
    "--status",
    "statuses",
    type=click.Choice(Status, case_sensitive=False),
    multiple=True,
    help="Only with this status; can be repeated.",
)
@click.option("--sort", type=click.Choice(list(_SORTED_BY)), help="Sort by this.  [default: forks below their parents]")
@click.option("--watch", is_flag=True, help="Show the list again every two seconds, until Ctrl-C.")
@output_option
@with_client
def list_services(
    client: Client,
    deleted: bool,
    labels: tuple[str, ...],
    statuses: tuple[Status, ...],
    sort: str | None,
    watch: bool,
    output: str,
) -> None:
    """List all services. The table shows forks below their parents.

    A fork shares the blocks of its parent until one of them writes: SPACE is what its files add up to, OWN the part of
    it that is shared with nothing. Snapshots and archived WAL are kept beside them.

    \b
    Examples:
      ramet service list
      ramet ls --watch
      ramet ls --status ready --sort space
      ramet service list --label pr=42
      ramet service list -o json | jq -r '.[] | select(.status == "READY") | .name'
    """
    if deleted:
        print_deleted(client.list_deleted_services(), output)
        return
    if watch:
        output = named_output(output)
    if watch and output != "table":
        raise click.UsageError("--watch cannot be used with --output.")
    while True:
        services = [one for one in client.list_services(labels) if not statuses or one.status in statuses]
        if watch:
            click.clear()
        print_services(services if sort is None else _sorted(services, sort), output, as_tree=sort is None)
        if not services and not labels and not statuses and output == "table":
            say("The project has no services. To create one: ramet service create NAME")
        if not watch:
            return
        try:
            time.sleep(_WATCH_SECONDS)
        except KeyboardInterrupt:
            return


def _sorted(services: Sequence[Service], by: str) -> list[Service]:
    """Return services in an order: names upwards, the newest and the largest first."""
    return sorted(services, key=_SORTED_BY[by], reverse=by not in ("name", "status"))


@service_command("get")
@output_option
def get_service(client: Client, service: Service, output: str) -> None:
    """Show one service, by its id or its name.

    \b
    Examples:
      ramet service get shop
      ramet service get d1k5vk7hf2 -o yaml
    """
    print_service(service, output)


@service_command("start")
@outcome_options
def start_service(client: Client, service: Service, waiting: Waiting, output: str) -> None:
    """Resume a paused service.

    \b
    Example:
      ramet service start shop
    """
    changed, name = client.start_service(service.service_id), service.name
    ready = waiting.follow(client.wait_ready, service.service_id, f"Resuming {name}", f"{name} is READY")
    print_service(ready or changed, output)


@service_command("stop")
@outcome_options
def stop_service(client: Client, service: Service, waiting: Waiting, output: str) -> None:
    """Pause a service: stop its server and keep its data. A paused service can still be forked.

    \b
    Example:
      ramet service stop shop --wait-timeout 5m
    """
    changed, name = client.stop_service(service.service_id), service.name
    paused = waiting.follow(client.wait_paused, service.service_id, f"Pausing {name}", f"{name} is PAUSED")
    print_service(paused or changed, output)


@service_command("wait")
@click.option("--timeout", type=Duration(), default="30m", show_default=True, help="How long to wait, such as 90s.")
@output_option
def wait_for_service(client: Client, service: Service, timeout: float, output: str) -> None:
    """Wait until a service is READY.

    \b
    Example:
      ramet service fork shop --no-wait --name preview && ramet wait preview
    """
    name, waiting = service.name, Waiting(timeout)
    ready = waiting.follow(client.wait_ready, service.service_id, f"Waiting for {name}", f"{name} is READY")
    print_service(ready or service, output)


@click.command("delete")
@click.argument("services", nargs=-1, metavar="SERVICE...", shell_complete=complete_service)
@click.option("--label", "labels", metavar="KEY[=VALUE]", multiple=True, help="All services with this label.")
@confirmation_options
@waiting_options
@with_client
def delete_services(
    client: Client, services: tuple[str, ...], labels: tuple[str, ...], confirmation: Confirmation, waiting: Waiting
) -> None:
    """Delete services with their snapshots and their local WAL archives. Their forks are not affected.

    What the off-host archive has of them stays there until it expires (RAMET_ARCHIVE_DAYS), and can be forked.
    They are named by id or by name, or by labels: then all services that have every label. None is deleted unless all
    are confirmed and none is protected.

    \b
    Examples:
      ramet service delete preview-42 --yes
      ramet service delete preview-41 preview-42 --yes
      ramet service delete --label pr=42 --yes
      ramet service delete shop --confirm shop
    """
    if bool(services) is bool(labels):
        raise click.UsageError("Give services or --label.")
    found = client.list_services(labels) if labels else [find_service(client, name) for name in services]
    chosen = list({one.service_id: one for one in found}.values())
    if not chosen:
        say("No service has these labels.")
        return
    for service in chosen:
        _check_unprotected(service)
    for service in chosen:
        remark = "" if service.metadata.archived_until is None else _STAYS
        confirmation.ask(service, "Permanently delete", "Nothing was deleted.", remark)
    begun = [service for service in chosen if _delete(client, service)]
    for service in begun:
        name = service.name
        waiting.follow(client.wait_deleted, service.service_id, f"Deleting {name}", f"{name} is deleted")


def _delete(client: Client, service: Service) -> bool:
    """Begin the deletion of a service; False: it no longer exists, because its life span has ended, for example."""
    try:
        client.delete_service(service.service_id)
    except ApiError as error:
        if not is_absence(error):
            raise
        say(f"{service.name} ({service.service_id}) was already deleted.")
        return False
    forget_password(service.endpoint)
    return True


def _check_unprotected(service: Service) -> None:
    if service.metadata.protected:
        raise WrongState(
            "PROTECTED",
            f"{service.name} ({service.service_id}) is protected, so nothing was deleted",
            f"Remove its protection first: ramet service unprotect {service.service_id}",
        )
